"""The report of one resolution: what was asked, what answered, what was chosen and why.

A report is plain data: it pickles, it goes through JSON, and it can be compared with the report of
another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeVar, cast, get_args

import attrs

from platform_abc.errors import ResolutionError

Kind = Literal["built-in", "out-of-tree"]
State = Literal["active", "inactive", "failed", "filtered", "not-asked"]

SCHEMA: Final = 1

T = TypeVar("T")


@attrs.frozen
class DetectorOutcome:
    """What one detector did.

    Args:
        name: the detector's name.
        kind: built-in, or out-of-tree from a plugin.
        source: `package.module:function`.
        distribution: what brought it, with the version; empty for a built-in one.
        state: `active` (it answered a name), `inactive` (it answered `None`), `failed`,
            `filtered` (kept out by the plugins variable) or `not-asked`.
        answer: the dotted name it gave.
        error: `Type: message` if it failed.
        traceback: the formatted traceback if it failed.
        reasons: why it answered what it answered, in its own words.
        seconds: how long it took, import of the plugin excluded.
    """

    name: str
    kind: Kind
    source: str
    distribution: str = ""
    state: State = "not-asked"
    answer: str | None = None
    error: str = ""
    traceback: str = ""
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """The detector as shown to users, `npu (vendor-plugin 1.2)`."""
        return f"{self.name} ({self.distribution})" if self.distribution else self.name


@attrs.frozen
class ResolutionReport:
    """What one resolution in one process did.

    Args:
        engine: whose platforms: `platform-abc` or `vllm`.
        detectors: each detector, in the order in which they are asked.
        winner: the name of the detector that decided; empty if none did.
        chosen: the dotted name of the platform class; empty if resolution failed.
        why: one sentence that says what decided.
        error: the error that ended the resolution; empty if it succeeded.
        traceback: that error's traceback.
        warnings: everything that was warned about.
        first_read: the stack of the read that started the resolution, outermost frame first.
        variables: the environment variables that can change the outcome, those that are set.
        packages: the versions of the packages that can change the outcome, those installed.
        process: `pid`, `python`, `executable`, `thread`.
        seconds: how long it all took.
    """

    engine: str
    detectors: tuple[DetectorOutcome, ...] = ()
    winner: str = ""
    chosen: str = ""
    why: str = ""
    error: str = ""
    traceback: str = ""
    warnings: tuple[str, ...] = ()
    first_read: tuple[str, ...] = ()
    variables: Mapping[str, str] = attrs.field(factory=dict[str, str])
    packages: Mapping[str, str] = attrs.field(factory=dict[str, str])
    process: Mapping[str, str] = attrs.field(factory=dict[str, str])
    seconds: float = 0.0

    def to_json(self, indent: int | None = None) -> str:
        """Return the report as a JSON object; `from_json` reads it back."""
        import json

        return json.dumps({"schema": SCHEMA, **attrs.asdict(self)}, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> ResolutionReport:
        """Read what `to_json` wrote.

        Raises:
            ValueError: not such an object, or of another schema.
        """
        import json

        try:
            data = _Fields(json.loads(text), "report")
            if data.of("schema", int) != SCHEMA:
                raise ValueError(f"expected schema {SCHEMA}, got {data.of('schema', int)}")
            return cls(
                engine=data.of("engine", str),
                detectors=tuple(_detector(each) for each in data.list_of("detectors")),
                winner=data.of("winner", str),
                chosen=data.of("chosen", str),
                why=data.of("why", str),
                error=data.of("error", str),
                traceback=data.of("traceback", str),
                warnings=data.texts("warnings"),
                first_read=data.texts("first_read"),
                variables=data.mapping("variables"),
                packages=data.mapping("packages"),
                process=data.mapping("process"),
                seconds=float(data.of("seconds", (int, float))),
            )
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a resolution report: {error}") from error

    def render(self, *, tracebacks: bool = False) -> str:
        """Return the report as plain text.

        Args:
            tracebacks: show also the tracebacks of built-in detectors and the first read;
                those of failed plugins and of the error are always shown.
        """
        return _render(self, tracebacks)


class _Fields:
    """A decoded JSON object whose fields are asked with the type that they must have."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where}: expected an object, got {type(value).__name__}")
        self._fields = cast("dict[str, object]", value)
        self._where = where

    def of(self, name: str, wanted: type[T] | tuple[type[T], ...]) -> T:
        """Return a field of a type."""
        value = self._fields.get(name)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ValueError(f"{self._where}: {name} is {value!r}")
        return value

    def list_of(self, name: str) -> list[object]:
        """Return a field that is a list."""
        return cast("list[object]", self.of(name, list))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of strings."""
        return tuple(_text(each, f"{self._where}: {name}") for each in self.list_of(name))

    def mapping(self, name: str) -> dict[str, str]:
        """Return a field that maps strings to strings."""
        values = cast("dict[str, object]", self.of(name, dict))
        return {key: _text(each, f"{self._where}: {name}.{key}") for key, each in values.items()}


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where}: expected a string, got {value!r}")
    return value


def _detector(value: object) -> DetectorOutcome:
    data = _Fields(value, "detector")
    kind, state = data.of("kind", str), data.of("state", str)
    if kind not in get_args(Kind) or state not in get_args(State):
        raise ValueError(f"detector: kind {kind!r}, state {state!r}")
    return DetectorOutcome(
        name=data.of("name", str),
        kind=cast("Kind", kind),
        source=data.of("source", str),
        distribution=data.of("distribution", str),
        state=cast("State", state),
        answer=data.of("answer", (str, type(None))),
        error=data.of("error", str),
        traceback=data.of("traceback", str),
        reasons=data.texts("reasons"),
        seconds=float(data.of("seconds", (int, float))),
    )


def require_same_platform(front_end: ResolutionReport, worker: ResolutionReport) -> None:
    """Refuse a worker that resolved another platform than the front end, and say what differs.

    Args:
        front_end: the report of the front end's process.
        worker: the report of the worker's process.

    Raises:
        ResolutionError: the platforms differ; the text names the variables, package versions or
            detector answers that differ.
    """
    if front_end.chosen == worker.chosen and front_end.engine == worker.engine and not worker.error:
        return
    worker_has = worker.chosen or f"no platform ({worker.error})"
    differences = [
        *_different("variable", front_end.variables, worker.variables, "unset"),
        *_different("package", front_end.packages, worker.packages, "not installed"),
        *_different("", _facts(front_end), _facts(worker), "absent"),
    ]
    if not differences:
        differences = _different("detector", _answers(front_end), _answers(worker), "not there")
    if not differences:
        differences = ["no variable, package or detector differs, so a detector depends on something else"]
    raise ResolutionError(
        f"the front end runs on {front_end.chosen or 'no platform'} but the worker resolved {worker_has}; "
        f"what differs: {'; '.join(differences)}"
    )


def _different(kind: str, ours: Mapping[str, str], theirs: Mapping[str, str], absent: str) -> list[str]:
    return [
        f"{kind} {name} is {_shown(ours, name, absent)} in the front end, "
        f"{_shown(theirs, name, absent)} in the worker".lstrip()
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]


def _shown(values: Mapping[str, str], name: str, absent: str) -> str:
    return repr(values[name]) if name in values else absent


def _facts(report: ResolutionReport) -> dict[str, str]:
    return {name: report.process[name] for name in ("python", "executable") if name in report.process}


def _answers(report: ResolutionReport) -> dict[str, str]:
    return {each.title: each.error or each.answer or each.state for each in report.detectors}


def _render(report: ResolutionReport, tracebacks: bool) -> str:
    lines = [f"platform of {report.engine}: {report.chosen or 'not resolved'}"]
    if report.why:
        lines.append(f"why: {report.why}")
    if report.error:
        lines.append(f"error: {report.error}")
    lines += ["", "detectors, in the order asked:"]
    # An out-of-tree detector wins whenever one is active; it may have the name of a built-in one.
    kinds = {each.kind for each in report.detectors if each.state == "active"}
    winning = "out-of-tree" if "out-of-tree" in kinds else "built-in"
    width = max((len(each.title) for each in report.detectors), default=0)
    for each in report.detectors:
        took = f" [{each.seconds * 1000:.1f} ms]" if each.state in ("active", "inactive", "failed") else ""
        won = each.name == report.winner and each.state == "active" and each.kind == winning
        mark = "*" if won else " "
        lines.append(f" {mark} {each.title:<{width}}  {each.kind:<11}  {_said(each)}{took}")
        lines += [f"     {reason}" for reason in each.reasons]
        if each.traceback and (tracebacks or each.kind == "out-of-tree"):
            lines += [f"     | {line}" for line in each.traceback.rstrip().splitlines()]
    if not report.detectors:
        lines.append("   none")
    for title, entries in (
        ("warnings:", report.warnings),
        ("variables set:", [f"{name}={value}" for name, value in sorted(report.variables.items())]),
        ("packages:", [f"{name} {version}" for name, version in sorted(report.packages.items())]),
    ):
        if entries:
            lines += ["", title, *(f"   {entry}" for entry in entries)]
    if report.traceback:
        lines += ["", "traceback of the error:", *(f"   | {each}" for each in report.traceback.splitlines())]
    if tracebacks and report.first_read:
        lines += ["", "first read, outermost call first:"]
        lines += [f"   {line}" for frame in report.first_read for line in frame.splitlines()]
    where = ", ".join(f"{name} {value}" for name, value in report.process.items())
    lines += ["", f"resolved in {report.seconds * 1000:.1f} ms ({where})" if where else ""]
    return "\n".join(lines).rstrip() + "\n"


def _said(outcome: DetectorOutcome) -> str:
    if outcome.state == "active":
        return f"active: {outcome.answer}"
    if outcome.state == "failed":
        return f"failed: {outcome.error}"
    return {"inactive": "not active", "filtered": "kept out by the plugin filter", "not-asked": "not asked"}[
        outcome.state
    ]
