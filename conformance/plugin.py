"""The pytest plugin of the kit: attached by the shim when a run addresses the kit.

Checks are items of our own class with a protocol of their own, so that fixtures, markers, naming
rules, warning filters and orders of the user's suite reach none of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

import conformance
from conformance.answers import result_from_json, result_to_json
from conformance.catalogue import checks_of
from conformance.expected import require_known
from conformance.facts import kit_version
from conformance.isolation import Host, Opening, Template
from conformance.items import CheckFolder, CheckItem
from conformance.listing import listing_lines
from conformance.model import Check, CheckResult, Outcome
from conformance.plan import Plan, make_plan
from conformance.problems import FRONT, UsageProblem, as_typed
from conformance.report import Run
from conformance.runner import Runner
from conformance.settings import Settings, resolve
from conformance.stops import Stops
from conformance.stubs import said
from conformance.target import parse
from conformance.verdict import NOTHING, Judgement, Verdict, decides, judge
from conformance.words import block, groups, short, verdict_line
from conformance.writing import require_writable, write_all
from platform_abc.errors import CONTRACT_VERSION

KIT_FOLDER: Final = Path(next(iter(conformance.__path__))).resolve()
_NAME: Final = "conformance-kit"
_CARRIED: Final = "conformance"
"""The attribute of a test report that holds, as JSON, `result` and `also`: the results of prerequisites
that had to be computed for it."""
_TEMPLATE: Final = "conformance_template"
"""What the controller of an xdist run tells its workers."""
_OPTIONS: Final = (
    "platform", "report", "html", "level", "require", "select", "strict", "timeout", "engine",
    "contract", "stub",
)  # fmt: skip
_LOOKING: Final = (
    "collectonly", "setuponly", "setupplan", "showfixtures", "show_fixtures_per_test", "cacheshow",
)  # fmt: skip
"""Options of pytest that look at a run without running it."""
_BROKEN: Final = Judgement(Verdict.UNDETERMINED, 3, "pytest itself broke, see above")
_WORDS: Final[Mapping[Outcome, tuple[str, str, str, str]]] = {
    # pytest's category, letter, word, and colour of the word
    Outcome.PASS: ("passed", ".", "PASSED", "green"),
    Outcome.FAIL: ("failed", "F", "FAILED", "red"),
    Outcome.UNSUPPORTED: ("unsupported", "u", "UNSUPPORTED", "green"),
    Outcome.SKIPPED: ("skipped", "s", "SKIPPED", "yellow"),
    Outcome.NOT_RUN: ("not run", "n", "NOT RUN", "yellow"),
    Outcome.ERROR: ("error", "E", "ERROR", "red"),
    Outcome.XFAIL: ("xfailed", "x", "XFAIL", "yellow"),
    Outcome.XPASS: ("xpassed", "X", "XPASS", "yellow"),
}


def attach(config: pytest.Config) -> None:
    """Register the kit with a pytest run; a second call does nothing."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(Kit(config), _NAME)


class _Node(Protocol):
    """A worker as the controller of an xdist run has it."""

    workerinput: dict[str, object]


class Kit:
    """One run of the kit inside a run of pytest.

    Args:
        config: of the run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = Settings()
        self.plan: Plan | None = None
        self.checks: Mapping[str, Check] = {}
        self.host: Host | None = None
        self.runner: Runner | None = None
        self.opening: Opening | None = None
        self.facts: Mapping[str, Any] = {}
        self.reported: dict[str, CheckResult] = {}
        self.also: dict[str, CheckResult] = {}
        self.judgement: Judgement | None = None
        self.interrupted = False
        self.problem = ""
        self.started = False
        self.finished = False
        self.template = ""
        self._told: set[str] = set()
        self.stops = Stops()
        self._from_command = os.environ.pop(FRONT, None) is not None

    # What kind of process this is

    @property
    def is_worker(self) -> bool:
        """An xdist worker: it runs checks and leaves verdict and report to the controller."""
        return hasattr(self.config, "workerinput")

    @property
    def is_controller(self) -> bool:
        """The process that hands checks to xdist workers and runs none."""
        return self.config.pluginmanager.has_plugin("dsession")

    @property
    def only_looks(self) -> bool:
        """The run lists something and judges nothing."""
        return any(getattr(self.config.option, name, False) for name in _LOOKING)

    @property
    def platform(self) -> str:
        """What the report calls the platform."""
        if self.opening is not None and self.opening.qualname:
            return self.opening.qualname
        return self.settings.platform or "no platform"

    # Start

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int | None:
        """Answer `--conformance-list` without a session."""
        if not config.getoption("conformance_list", False) or config.getoption("help", False):
            return None
        try:
            settings = self._resolve()
            checks = self._load_checks()
            plan = make_plan(checks, settings, settings.engine)
        except UsageProblem as problem:
            raise pytest.UsageError(self._typed(problem.line)) from None
        print("\n".join(listing_lines([one for one in plan.scope if one.id in plan.chosen])))
        return 0

    def pytest_report_header(self) -> list[str]:
        """What is judged by what."""
        lines = [f"conformance: kit {kit_version()}, contract {CONTRACT_VERSION}"]
        if not hasattr(self.config.option, "conformance_platform_plain"):
            lines.append(
                "conformance: --platform belongs to a conftest.py or another plugin here; "
                "the kit listens to --conformance-platform only"
            )
        for name in ("conformance", "platforms.py"):
            beside = self.config.invocation_params.dir / name
            if beside.exists() and beside.resolve() != KIT_FOLDER:
                lines.append(f"conformance: {beside} is not part of the kit and is not used by it")
        return lines

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Read the settings and open the platform; what the user got wrong ends the run here."""
        try:
            self._start()
        except UsageProblem as problem:
            self._refuse(problem)
            raise pytest.UsageError(self.problem) from None

    def _start(self) -> None:
        self.started = True
        if not self.is_worker:
            self.stops.take()
            self.config.add_cleanup(self.stops.restore)
        self.settings = self._reports_only()
        self.settings = self._resolve()
        require_writable(self.settings)
        self.checks = self._load_checks()
        require_known(self.settings.expected, self.checks, self.settings.source)
        if self.only_looks:
            self.plan = make_plan(self.checks, self.settings, self.settings.engine)
            return
        if self.settings.platform is None:
            raise UsageProblem(self._no_platform())
        target = parse(self.settings.platform)
        plan = make_plan(self.checks, self.settings, self.settings.engine)
        self.host = Host(
            target,
            engine=self.settings.engine,
            limit=self.settings.timeout,
            checks_from=self.config.getoption("conformance_checks_from"),
            light=plan.is_static(self.checks),
            stubs=self.settings.stub,
            engine_arguments=self.settings.engine_arguments,
            template=self._template(),
            notify=self._say,
        )
        self._say(f"opening {target.text}")
        self.opening = self.host.open()
        if self.opening.status == "usage":
            raise UsageProblem(self.opening.line)
        for line in said(self.opening.stubs):
            self._say(line)
        self.plan = make_plan(self.checks, self.settings, self.opening.engine or self.settings.engine)
        self.runner = Runner(self.checks, self.host, self.opening, self.settings.expected)
        if not self.is_worker:
            self.facts = self.host.facts() if self.opening.status == "ready" else {}
        if self.is_controller:
            self.template = self.host.share(self.opening).to_json()

    def _template(self) -> Template | None:
        """The open host that the controller of an xdist run has for its workers."""
        told: Mapping[str, str] = getattr(self.config, "workerinput", {})
        text = told.get(_TEMPLATE, "")
        return Template.from_json(text) if text else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: _Node) -> None:
        """Tell an xdist worker where it gets a copy of the host."""
        node.workerinput[_TEMPLATE] = self.template

    def _reports_only(self) -> Settings:
        """The reports that the command line asks for: they are written also when the rest is wrong."""
        here, option = self.config.invocation_params.dir, self.config.option
        places = {name: getattr(option, f"conformance_{name}") for name in ("report", "html")}
        return Settings(**{name: here / place for name, place in places.items() if place and place != "-"})

    def _resolve(self) -> Settings:
        option = self.config.option
        given = {name: getattr(option, f"conformance_{name}", None) for name in _OPTIONS}
        plain = getattr(option, "conformance_platform_plain", None)
        if plain is not None:
            if given["platform"] is not None and given["platform"] != plain:
                raise UsageProblem(
                    f"--platform {plain} and --conformance-platform {given['platform']} differ; give one"
                )
            given["platform"] = plain
        here = self.config.invocation_params.dir
        return resolve(given, config=option.conformance_config, here=here)

    def _load_checks(self) -> Mapping[str, Check]:
        return checks_of(self.config.getoption("conformance_checks_from"))

    def _no_platform(self) -> str:
        if not hasattr(self.config.option, "conformance_platform_plain"):
            return (
                "the kit was given no platform: --platform belongs to a conftest.py or another plugin here; "
                "say --conformance-platform pkg.module:Class"
            )
        return "the kit was given no platform; say --platform pkg.module:Class"

    def _refuse(self, problem: UsageProblem) -> None:
        self.problem = self._typed(problem.line)
        self.judgement = NOTHING
        self._close()

    # Collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Make the kit's folder a collector of checks."""
        if path.resolve() != KIT_FOLDER or self.plan is None:
            return None
        checks = [one for one in self.plan.scope if one.id in self.plan.chosen]
        folder: CheckFolder = CheckFolder.from_parent(  # pyright: ignore[reportUnknownMemberType]
            parent, path=path, nodeid="conformance", checks=checks
        )
        return folder

    # Running

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Start early what takes long; an xdist worker does not know yet which checks will be its own."""
        alone = not (self.is_worker or self.is_controller)
        if self.runner is not None and alone and not session.testsfailed:  # else pytest stops at once
            self.runner.begin(one.check.id for one in session.items if isinstance(one, CheckItem))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Run a check and report it; no fixture, marker or filter of the suite takes part."""
        if not isinstance(item, CheckItem) or self.runner is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        result = self.runner.result(item.check.id)
        item.ihook.pytest_runtest_logreport(report=self._report(item, result))
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """Keep pytest-timeout off the checks: they have a limit of their own."""
        return True if isinstance(item, CheckItem) else None

    def _report(self, item: CheckItem, result: CheckResult) -> pytest.TestReport:
        told = self._pytest_outcome(result)
        longrepr: Any = None
        if told == "failed":
            longrepr = "\n".join(block(result, self.settings))
        elif told == "skipped":
            longrepr = (str(item.path), 0, f"{result.check.id}: {short(result)}")
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome=told,
            longrepr=longrepr,
            when="call",
            duration=result.duration_s,
        )
        assert self.runner is not None  # it has just given the result
        also = [one for one in self.runner.known() if one.check.id not in self._told]
        self._told.update(one.check.id for one in also)
        # Attributes of a report travel from xdist workers as they are, as long as they are plain values.
        carried = {"result": result_to_json(result), "also": [result_to_json(one) for one in also]}
        setattr(report, _CARRIED, json.dumps(carried))
        if result.outcome is Outcome.XFAIL or (result.outcome is Outcome.XPASS and told == "passed"):
            setattr(report, "wasxfail", result.reason)  # noqa: B010  pytest's own, undeclared
        return report

    def _pytest_outcome(self, result: CheckResult) -> Any:
        outcome = result.outcome
        if outcome is Outcome.FAIL:
            return "failed" if decides(result, self.settings) else "passed"
        if outcome is Outcome.XPASS:
            return "failed" if result.details.get("strict", True) else "passed"
        if outcome is Outcome.ERROR:
            return "failed"
        if outcome in (Outcome.PASS, Outcome.UNSUPPORTED):
            return "passed"
        return "skipped"

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """The kit's outcomes have words of their own."""
        data = self._carried(report)
        if data is None:
            return None
        result = result_from_json(data["result"], self.checks)
        category, letter, word, colour = _WORDS[result.outcome]
        if result.outcome is Outcome.FAIL and not report.failed:
            category, letter, word, colour = ("warned", "w", "WARNED", "yellow")
        if result.outcome is Outcome.XPASS and report.failed:
            category, letter, word, colour = ("failed", "X", "XPASS", "red")
        return category, letter, (word, {colour: True})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result; under xdist this runs in the controller for every worker's checks."""
        if self.is_worker:
            return
        data = self._carried(report)
        if data is not None:
            result = result_from_json(data["result"], self.checks)
            self.reported[result.check.id] = result
            for one in data["also"]:
                self.also.setdefault(one["id"], result_from_json(one, self.checks))

    def _carried(self, report: pytest.TestReport) -> dict[str, Any] | None:
        text = getattr(report, _CARRIED, None)
        data: dict[str, Any] | None = json.loads(text) if isinstance(text, str) else None
        return data

    # End

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember that the run was stopped.

        A plugin stops it too, `--stepwise` for one, after a failure that decides the verdict by itself.
        """
        by_plugin = isinstance(excinfo.value, pytest.Session.Interrupted)
        self.interrupted = not (by_plugin and self._failed())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None]:
        """Judge, write the reports, set the exit status, say the verdict as the last line."""
        if self.is_worker or self.only_looks or self.plan is None:
            self._close_host()
            return (yield)
        self.interrupted = self.interrupted or (
            exitstatus == pytest.ExitCode.INTERRUPTED and not self._all_ran() and not self._failed()
        )
        self.judgement = self._judge(exitstatus)
        result = None
        try:
            result = yield
        except KeyboardInterrupt:
            self.interrupted = True
            self.judgement = self._judge(exitstatus)
        self.stops.hold()
        if self.judgement is NOTHING:
            self.problem = self._typed(self._nothing_ran())
        if self.judgement.exit_status or session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = self.judgement.exit_status
        if not self._close() and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Everything below the failures, which pytest shows in a section of its own."""
        if self.plan is None or self.judgement is None:
            return
        hidden = self.config.getoption("tbstyle", "auto") == "no" or self.config.getoption(
            "no_summary", False
        )
        lines = groups(self.results(), self.settings, shown=() if hidden else self.reported)
        if lines:
            terminalreporter.section("conformance")
            terminalreporter.write_line("\n".join(lines).rstrip())

    def pytest_unconfigure(self) -> None:
        """Report what an interrupt, or a conftest that broke, ended before the session had begun."""
        if self.started and not self.finished and not self.is_worker and not self.only_looks:
            self.judgement = (
                judge(self.results(), self.settings, interrupted=True) if self.interrupted else _BROKEN
            )
            self._close()
        self._close_host()

    def results(self) -> list[CheckResult]:
        """The results of every check in scope; one that did not run says why."""
        return [self._one(check) for check in self.plan.scope] if self.plan is not None else []

    def _one(self, check: Check) -> CheckResult:
        known = self.reported.get(check.id) or self.also.get(check.id)
        if known is not None:
            return known
        if self.interrupted:
            return CheckResult(check, Outcome.NOT_RUN, reason="the run was interrupted before it")
        assert self.plan is not None  # only asked for checks of the plan
        if check.id not in self.plan.chosen:
            patterns = ", ".join(self.settings.select)
            reason = f"deselected by --conformance-select {patterns}; to run it: leave that out"
        else:
            reason = "deselected by pytest or not reached; to run it: leave out -k, -m, -x and the like"
        return CheckResult(check, Outcome.SKIPPED, reason=reason)

    def _judge(self, exitstatus: int) -> Judgement:
        if exitstatus == pytest.ExitCode.INTERNAL_ERROR:
            return _BROKEN
        if not self.reported and not self.interrupted:
            return NOTHING
        return judge(self.results(), self.settings, interrupted=self.interrupted)

    def _failed(self) -> bool:
        """Say whether what ran makes the platform not conformant, whatever would have come."""
        return judge(self.reported.values(), self.settings).verdict is Verdict.NOT_CONFORMANT

    def _all_ran(self) -> bool:
        return self.plan is not None and all(one in self.reported for one in self.plan.chosen)

    def _nothing_ran(self) -> str:
        return "no check collected: pytest deselected all of them, or --pyargs conformance is missing"

    def _close(self) -> bool:
        """Write the reports and say the verdict, once.

        Returns:
            Whether every report that was asked for is there.
        """
        self._close_host()
        if self.finished or self.is_worker or self.judgement is None:
            return True
        self.finished = True
        results = self.results()
        run = Run(self.platform, self.settings, self.judgement, results, self.facts, self.problem)
        said, whole = write_all(run)
        for line in said:
            self._say(line)
        if self.judgement.verdict is not Verdict.NONE:
            self._say(verdict_line(self.judgement, self.platform, results), prefix="")
        elif self.plan is not None and self.problem:
            self._say(f"ERROR: {self.problem}", prefix="")
        return whole

    def _close_host(self) -> None:
        if self.host is not None:
            self.host.close()

    def _say(self, text: str, prefix: str = "conformance: ") -> None:
        terminal: Any = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and not self.is_worker:
            terminal.write_line(f"{prefix}{self._typed(text)}")
            # pytest says usage errors on stderr: in a log of both, what came before stands before them.
            terminal.flush()

    def _typed(self, line: str) -> str:
        """A line with the options as whoever started this run spells them."""
        return as_typed(line) if self._from_command else line
