"""From detectors to one platform object: the rules, driven by a `ResolutionSpec`.

The same code resolves our own platforms and explains how another engine chooses its own. It raises
nothing but `ResolutionError`, whose `report` tells what happened until then.

The first read of `current_platform` waits for this, so neither attrs nor the report, which few ask for, is
imported before there is a report to make.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from platform_abc import envs
from platform_abc.candidates import Candidate, Detector, left_out, source_of, tried
from platform_abc.errors import ConfigError, QualnameError, ResolutionError
from platform_abc.foreign import describe, shown, traceback_text
from platform_abc.plugins import (
    GENERAL_PLUGINS_GROUP,
    PLATFORM_PLUGINS_GROUP,
    SEE_TRACEBACK,
    Plugin,
    load_plugins_by_group,
)
from platform_abc.qualname import resolve_obj_by_qualname
from platform_abc.reasons import Reasons, listening

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport

Progress = Callable[[str, str], None]
"""Called with what is about to happen and to whom, `("asking", "npu (vendor 1.0)")`."""

logger = logging.getLogger(__name__)


class ResolutionSpec(NamedTuple):
    """How one engine chooses its platform.

    Args:
        engine: its name, for the report.
        builtins: its own detectors by name, in the order in which they are asked.
        unspecified: the class that stands for "nothing was detected".
        target: reads the wished target from the environment; raises `ConfigError` for a wrong value.
        forced: targets that decide at once, with the name of the built-in detector to ask.
        platform_group: entry-point group of out-of-tree detectors.
        groups: all groups that share the filter.
        plugins_variable: the variable that filters plugins by name.
        last_plugin_wins: of plugins that share a name only the last one found counts.
        same_answer_twice: refuse a winner whose second answer differs; else the second one counts.
        survives_exit: a detector that raises `SystemExit` counts as not active; else it ends the engine.
        required_members: names that the chosen class must have.
        variables: environment variables that can change the outcome; a trailing `*` is a prefix.
        packages: distributions whose version can change the outcome.
        reasons_logger: a logger on which the built-in detectors say why they answer what they do.
        confirm: lets the engine itself resolve and returns the dotted name of the class it made, to
            compare with; used where this resolution only explains.
    """

    engine: str
    builtins: Mapping[str, Detector]
    unspecified: str
    target: Callable[[Mapping[str, str]], str] = envs.target_device
    forced: Mapping[str, str] = MappingProxyType({})
    platform_group: str = PLATFORM_PLUGINS_GROUP
    groups: tuple[str, ...] = (PLATFORM_PLUGINS_GROUP, GENERAL_PLUGINS_GROUP)
    plugins_variable: str = envs.PLUGINS
    last_plugin_wins: bool = False
    same_answer_twice: bool = True
    survives_exit: bool = True
    required_members: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    reasons_logger: str = ""
    confirm: Callable[[], str] | None = None


def resolve(
    spec: ResolutionSpec, *, first_read: tuple[str, ...] = (), progress: Progress | None = None
) -> tuple[object, ResolutionReport]:
    """Choose the platform class by the rules and make its one object.

    Args:
        spec: the engine's rules and detectors.
        first_read: the stack of the read that asks, for the report.
        progress: told of each step before it starts.

    Returns:
        The platform object, and the report.

    Raises:
        ResolutionError: a wrong target, two active detectors, an unusable answer, a class that
            does not import or cannot be made, or whatever else a plugin makes fail; `error.report`
            is the report, the cause is chained. Only `KeyboardInterrupt` passes as it is.
    """
    run = start(spec, first_read=first_read, progress=progress)
    report = run.report()
    if run.error is not None:
        run.error.report = report
        raise run.error
    return run.platform, report


def start(
    spec: ResolutionSpec, *, first_read: tuple[str, ...] = (), progress: Progress | None = None
) -> Resolution:
    """Choose the platform class and make its one object, without a report; it can be asked for later.

    Args:
        spec: the engine's rules and detectors.
        first_read: the stack of the read that asks, for the report.
        progress: told of each step before it starts.

    Returns:
        The resolution, with the platform object or the error that `resolve` would raise.
    """
    envs.configure_logging()
    run = Resolution(spec, progress, first_read)
    run.go()
    return run


class Resolution:
    """One resolution: the rules as methods, what happened as fields.

    Args:
        spec: the engine's rules and detectors.
        told: is told of each step before it starts.
        first_read: the stack of the read that asks.
    """

    def __init__(self, spec: ResolutionSpec, told: Progress | None, first_read: tuple[str, ...]) -> None:
        self.spec = spec
        self.told = told
        self.first_read = first_read
        self.step = "starting"
        self.outcomes: list[Candidate] = []
        self.warnings: list[str] = []
        self.plugins: list[Plugin] = []
        self.active: list[Candidate] = []
        self.unusable: list[str] = []
        self.winner = self.chosen = self.why = ""
        self.decided_by = "resolution"
        self.platform: object = None
        self.error: ResolutionError | None = None
        self.variables: dict[str, str] = {}
        self.thread = threading.current_thread().name
        self.seconds = 0.0

    def go(self) -> None:
        """Choose and make the platform, or keep the error that ended it.

        Raises:
            KeyboardInterrupt: as it is.
        """
        started = time.perf_counter()
        try:
            self.platform = self.choose_and_make()
        except ResolutionError as raised:
            self.error = raised
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # noqa: BLE001  (an odd object of a plugin, in a place not thought of)
            self.error = ResolutionError(f"{describe(raised)} was raised while {self.step}")
            self.error.__cause__ = raised
        self.variables = _variables(self.spec)
        self.seconds = time.perf_counter() - started

    def report(self) -> ResolutionReport:
        """Return the report; the versions of packages are looked up when it is made."""
        from platform_abc.resolution_report import ResolutionReport

        error = self.error
        return ResolutionReport(
            engine=self.spec.engine,
            detectors=tuple(each.outcome() for each in self.outcomes),
            winner=self.winner,
            chosen=self.chosen if error is None else "",
            why=self.why,
            error=str(error) if error is not None else "",
            traceback=traceback_text(error) if error is not None else "",
            warnings=tuple(self.warnings),
            first_read=self.first_read,
            variables=self.variables,
            packages=_packages(self.spec, self.plugins),
            process={
                "pid": str(os.getpid()),
                "thread": self.thread,
                "python": ".".join(str(part) for part in sys.version_info[:3]),
                "executable": sys.executable,
            },
            seconds=self.seconds,
        )

    def progress(self, step: str, subject: str) -> None:
        """Keep what is about to happen and to whom, for an error, and tell who wants to know."""
        self.step = f"{step} {subject}"
        if self.told is not None:
            self.told(step, subject)

    def choose_and_make(self) -> object:
        """Choose the class, import it, make its object."""
        try:
            target = self.spec.target(os.environ)
        except ConfigError as error:
            raise ResolutionError(str(error)) from error
        forced = self.spec.forced.get(target)
        builtins = [
            Candidate(name, detector, source_of(detector)) for name, detector in self.spec.builtins.items()
        ]
        if forced is not None:
            self._force(target, forced, builtins)
        else:
            self._detect(builtins)
        return self._make()

    def _force(self, target: str, name: str, builtins: list[Candidate]) -> None:
        """Ask one built-in detector, because the target says so; it alone decides."""
        for candidate in builtins:
            if candidate.name != name:
                self.outcomes.append(candidate)
                continue
            self._ask(candidate)
        self._refuse_unusable()
        if not self.active:
            failed = next(each for each in self.outcomes if each.name == name)
            raise ResolutionError(
                f"the target device is set to {target!r}, but the detector {name!r} "
                + (f"failed: {failed.error}" if failed.error else "answered None")
            )
        self.winner, self.chosen = name, self.active[0].answer or ""
        self.decided_by = f"detector {name}"
        self.why = f"the target device is set to {target!r}, which decides at once; nothing else was asked"
        logger.debug("platform %s was selected explicitly", self.chosen)

    def _detect(self, builtins: list[Candidate]) -> None:
        """Ask every detector, then decide: out-of-tree before built-in, and never between two."""
        loaded, not_asked = self._load_plugins()
        for candidate in (*builtins, *loaded):
            self._ask(candidate)
        self.outcomes += not_asked
        self._refuse_unusable()
        for kind in ("out-of-tree", "built-in"):
            those = [each for each in self.active if each.kind == kind]
            if len(those) > 1:
                names = ", ".join(sorted(each.title for each in those))
                raise ResolutionError(
                    f"only one {kind} platform can be active, but {len(those)} detectors answered: {names}; "
                    + self._how_to_choose(kind)
                )
            if those:
                self._win(those[0])
                return
        self._nothing_detected()

    def _load_plugins(self) -> tuple[list[Candidate], list[Candidate]]:
        """Import the out-of-tree detectors; return them, and those left out."""
        self.progress("loading the plugins of", self.spec.platform_group)
        found = load_plugins_by_group(
            self.spec.platform_group,
            variable=self.spec.plugins_variable,
            groups=self.spec.groups,
            last_wins=self.spec.last_plugin_wins,
            before_each=lambda plugin: self.progress("importing plugin", plugin.title),
        )
        self.plugins += [plugin for plugin, _ in found.loaded]
        self.plugins += [each.plugin for each in found.failures]
        self.warnings += found.complaints
        for failed in found.failures:
            self.warnings.append(f"plugin {failed.plugin.title} failed to load: {failed.error}")
        not_asked = [
            *(left_out(each.plugin, each) for each in found.failures),
            *(left_out(plugin) for plugin in found.filtered),
        ]
        candidates = [
            Candidate(plugin.name, _as_detector(function), plugin.value, plugin)
            for plugin, function in found.loaded
        ]
        return candidates, not_asked

    def _ask(self, candidate: Candidate) -> None:
        """Ask one detector; an exception counts as not active."""
        self.progress("asking detector", candidate.title)
        reasons = Reasons()
        started = time.perf_counter()
        answer: object = None
        problem: BaseException | None = None
        with listening(reasons, self.spec.reasons_logger):
            try:
                answer = candidate.ask()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  (SystemExit and worse count as not active)
                problem = error
        if problem is not None and not isinstance(problem, Exception) and not self.spec.survives_exit:
            raise ResolutionError(
                f"detector {candidate.title} raised {describe(problem)}, which {self.spec.engine} does not "
                "catch: it ends the process"
            ) from problem
        candidate.seconds = time.perf_counter() - started
        candidate.reasons, candidate.state = tuple(reasons.said), "inactive"
        self.warnings += reasons.warned
        if problem is not None:
            candidate.state, candidate.error = "failed", describe(problem)
            candidate.traceback = traceback_text(problem)
            self._report_failure(candidate)
        elif isinstance(answer, str) and answer:
            candidate.state, candidate.answer = "active", answer
            self.active.append(candidate)
        elif answer is not None:
            candidate.state, candidate.error = "failed", f"answered {shown(answer)}"
            self.unusable.append(
                f"detector {candidate.title} answered {shown(answer)}, expected the dotted name of a class, "
                "or None when its device is absent"
            )
        self.outcomes.append(candidate)

    def _report_failure(self, outcome: Candidate) -> None:
        if outcome.kind == "built-in":
            logger.debug("built-in detector %s failed:\n%s", outcome.name, outcome.traceback)
            return
        text = (
            f"platform plugin {outcome.title} failed during detection, so it is not active: {outcome.error}"
        )
        self.warnings.append(text)
        logger.warning("%s; see the traceback with `%s`", text, self._command())
        logger.debug("platform plugin %s:\n%s", outcome.title, outcome.traceback)

    def _refuse_unusable(self) -> None:
        if self.unusable:
            raise ResolutionError("; ".join(sorted(self.unusable)))

    def _win(self, winner: Candidate) -> None:
        """Ask the winner again for its name; the two answers must agree."""
        self.winner, self.decided_by = winner.name, f"detector {winner.title}"
        self.progress("asking again detector", winner.title)
        again: object = None
        with listening(Reasons(quiet=True), self.spec.reasons_logger):
            try:
                again = winner.ask()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise ResolutionError(
                    f"detector {winner.title} answered {winner.answer!r} when first asked "
                    f"and raised when asked again: {describe(error)}"
                ) from error
        if not isinstance(again, str) or (self.spec.same_answer_twice and again != winner.answer):
            raise ResolutionError(
                f"detector {winner.title} answered {winner.answer!r} when first asked and {shown(again)} when "
                "asked again; it must answer the same every time"
            )
        self.chosen = again
        if winner.kind == "out-of-tree":
            over = sorted(each.title for each in self.active if each.kind == "built-in")
            beaten = f", which wins over the built-in {', '.join(over)}" if over else ""
            self.why = f"the out-of-tree detector {winner.title} is active{beaten}"
            logger.info("platform plugin %s is activated: %s", winner.title, self.chosen)
        else:
            self.why = f"the built-in detector {winner.name} is the only active one"
            logger.debug("detected platform %s: %s", winner.name, self.chosen)

    def _nothing_detected(self) -> None:
        self.chosen = self.spec.unspecified
        self.why = "no detector is active"
        told = "; ".join(tried(self.outcomes)) or "there is no detector"
        text = f"no platform was detected, so {self.chosen} stands in, on which nothing runs. Tried: {told}"
        self.warnings.append(text)
        logger.warning("%s", text)

    def _make(self) -> object:
        """Import the chosen class and make its object."""
        by = self.decided_by
        self.progress("importing platform", self.chosen)
        try:
            cls = resolve_obj_by_qualname(self.chosen)
        except QualnameError as error:
            raise ResolutionError(f"{by} chose a platform that cannot be imported: {error}") from error
        really = issubclass(type(cls), type)  # a mock only says that it is one
        if not isinstance(cls, type) or not really:
            raise ResolutionError(f"{by} chose {self.chosen!r}, which is a {type(cls).__name__}, not a class")
        missing = [name for name in self.spec.required_members if not _has(cls, name)]
        if missing:
            raise ResolutionError(
                f"{by} chose {self.chosen!r}, which is not a platform class: it has no {', '.join(missing)}"
            )
        self.progress("making platform", self.chosen)
        try:
            platform: object = cls()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ResolutionError(
                f"{by} chose {self.chosen!r}, which cannot be made: {describe(error)}"
            ) from error
        if cls not in type(platform).__mro__:
            raise ResolutionError(
                f"{by} chose {self.chosen!r}, and calling it gave {shown(platform)}, not an object of that class"
            )
        return platform

    def _how_to_choose(self, kind: str) -> str:
        variable = self.spec.plugins_variable
        if kind == "out-of-tree":
            return f"uninstall all but one, or name the wanted one in {variable}"
        return f"install one accelerator's libraries only; `{self._command()}` shows why each one answered"

    def _command(self) -> str:
        return (
            SEE_TRACEBACK
            if self.spec.engine == "platform-abc"
            else f"{SEE_TRACEBACK} --engine {self.spec.engine}"
        )


def _as_detector(function: Callable[[], object]) -> Detector:
    """Take a plugin's function as a detector; its answer is checked when it is asked."""
    return function  # type: ignore[return-value]


def _has(cls: type, name: str) -> bool:
    """Say whether a class has a name, without reading it: reading may run code of the platform."""
    return any(name in vars(base) for base in cls.__mro__)


def _variables(spec: ResolutionSpec) -> dict[str, str]:
    exact = {name for name in spec.variables if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in spec.variables if name.endswith("*"))
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name in exact or (prefixes and name.startswith(prefixes))
    }


def _packages(spec: ResolutionSpec, plugins: list[Plugin]) -> dict[str, str]:
    import importlib.metadata

    versions = {plugin.distribution: plugin.version for plugin in plugins if plugin.distribution}
    for name in spec.packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except Exception as error:  # noqa: BLE001  (not installed, or damaged: then it has no version)
            logger.debug("version of %s: %s", name, describe(error))
    return versions


def stack_of_reader(skip: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formatted frames of the caller, without the import machinery and ours.

    Args:
        skip: file names whose frames are left out.
    """
    frames = traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)
    ours = {__file__, *skip}
    wanted = [frame for frame in frames if frame.filename not in ours and "<frozen" not in frame.filename]
    return tuple(f"{each.filename}:{each.lineno} in {each.name}" for each in reversed(wanted))
