"""The runner: one answer per check, prerequisites first, computed once, in whatever order they are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import attrs

from conformance import frames
from conformance.answers import Answer
from conformance.expected import ExpectedFailure
from conformance.general_plugins import CHECK as PLUGINS
from conformance.isolation import Opening
from conformance.isolation.client import Ran
from conformance.model import IMPORTABLE, Check, CheckResult, Finding, Level, Outcome
from conformance.perform import died_finding

_GOOD: Final = (Outcome.PASS, Outcome.UNSUPPORTED)


class Source(Protocol):
    """What runs one check in a process of its own."""

    importable_by_name: bool
    limit: float
    """Seconds for a check that says nothing else."""

    def run(self, check_id: str, limit: float | None = None) -> Ran:
        """Run one check by its id, within its limit in seconds."""
        ...

    def begin(self, check_id: str, limit: float | None = None, *, spare: bool = False) -> bool:
        """Start a check that `run` is asked for later, where that saves time; `spare`: if a core has nothing to do.

        Returns:
            Whether it was started.
        """
        ...


@attrs.define
class Runner:
    """Answers for the checks of one platform.

    Args:
        checks: all of them, by id.
        source: runs them.
        opening: how the platform opened.
        expected: expected failures by id.
    """

    checks: Mapping[str, Check]
    source: Source
    opening: Opening
    expected: Mapping[str, ExpectedFailure] = attrs.field(factory=dict[str, ExpectedFailure])
    _answers: dict[str, Answer] = attrs.field(factory=dict[str, Answer])
    _coming: list[str] = attrs.field(factory=list[str])
    _later: list[str] = attrs.field(factory=list[str])

    def result(self, check_id: str) -> CheckResult:
        """The result of a check; runs it, and what it needs, unless that has been done."""
        self._look_ahead(check_id)
        answer = self.answer(check_id)
        self._begin_ready()
        check = self.checks[check_id]
        outcome, reason = answer.outcome, answer.reason
        details = dict(answer.details)
        expected = self.expected.get(check_id)
        if expected is not None and outcome in (Outcome.FAIL, Outcome.PASS):
            outcome = Outcome.XFAIL if outcome is Outcome.FAIL else Outcome.XPASS
            details["strict"] = expected.strict
            reason = expected.reason
            if outcome is Outcome.XPASS:
                reason = f"it was expected to fail ({expected.reason}), and passed; remove the entry"
        return CheckResult(
            check, outcome, answer.findings, reason, answer.duration_s, details, answer.traceback
        )

    def begin(self, check_ids: Iterable[str]) -> None:
        """Start, beside what follows, the checks that mostly wait for an interpreter of their own.

        Args:
            check_ids: what will be asked for; what a check needs is run first, here and now.
        """
        wanted = [self.checks[check_id] for check_id in check_ids]
        self._coming = [one.id for one in wanted if one.where == "fork" and one.level <= Level.CONTRACT]
        self._later = [one.id for one in wanted if one.where == "fresh"]
        self._begin_ready()

    def _begin_ready(self) -> None:
        """Start those that are to be started and need no answer any more of another of their kind.

        To wait here for such an answer would keep everything else waiting.
        """
        for name in list(self._later):
            if name in self._answers:
                self._later.remove(name)
            elif self._fresh_needs(self.checks[name]) <= self._answers.keys():
                self._later.remove(name)
                check = self.checks[name]
                if self._obstacle(check) is None and name not in self._answers:
                    self.source.begin(name, check.limit(self.source.limit))

    def _fresh_needs(self, check: Check) -> set[str]:
        """The checks that a check needs, at whatever remove, and that wait for an interpreter of their own."""
        found: set[str] = set()
        waiting = [check]
        while waiting:
            new = set(self._needs(waiting.pop())) - found
            found |= new
            waiting += [self.checks[name] for name in new]
        return {name for name in found if self.checks[name].where == "fresh"}

    def _look_ahead(self, check_id: str) -> None:
        """Start a check that comes later beside this one, if a core is free and what it needs has run.

        Checks of a device never run beside others: some devices take one process at a time.
        """
        if check_id in self._answers or check_id not in self._coming:
            return
        self._coming.remove(check_id)
        for name in self._coming:
            check = self.checks[name]
            ready = name not in self._answers and all(need in self._answers for need in self._needs(check))
            if ready and self._obstacle(check) is None:
                if self.source.begin(name, check.limit(self.source.limit), spare=True):
                    self._coming.remove(name)
                return

    def known(self) -> list[CheckResult]:
        """The results of every check that has been run so far, prerequisites included."""
        return [self.result(check_id) for check_id in list(self._answers)]

    def answer(self, check_id: str) -> Answer:
        """What the check itself says, before expected failures are applied."""
        if check_id not in self._answers:
            self._answers[check_id] = self._find(self.checks[check_id])
        return self._answers[check_id]

    def _find(self, check: Check) -> Answer:
        return self._obstacle(check) or self._without_repeats(check, self._run(check))

    def _without_repeats(self, check: Check, answer: Answer) -> Answer:
        """One cause, one failure: what says no more than an expected failure that it needs counts as not run."""
        for need in self._needs(check) if answer.outcome is Outcome.FAIL else ():
            known = self.answer(need).findings
            if need in self.expected and all(_is_said(one, known) for one in answer.findings):
                return Answer(Outcome.NOT_RUN, reason=f"{need} failed", details={"cause": need})
        return answer

    def _needs(self, check: Check) -> list[str]:
        """The checks that a check needs on this engine; those of other engines say nothing here."""
        engine = self.opening.engine
        return [
            name
            for name in check.needs
            if not engine or not self.checks[name].engines or engine in self.checks[name].engines
        ]

    def _obstacle(self, check: Check) -> Answer | None:
        """The answer of a check that cannot be run; None if it can."""
        if check.id == IMPORTABLE and self.opening.status != "ready":
            return _not_opened(check, self.opening)
        for need in self._needs(check):
            answer = self.answer(need)
            if need in self.expected and answer.outcome is Outcome.FAIL:
                continue  # a fault that its vendor knows and goes on with
            cause = answer.details.get("cause", need)
            if answer.outcome is Outcome.SKIPPED:
                return Answer(Outcome.SKIPPED, reason=_behind(need, answer.reason), details={"cause": cause})
            if answer.outcome not in _GOOD and not self._blames_others(need, answer, check):
                how = "could not judge" if answer.outcome is Outcome.ERROR else "failed"
                text = f"{cause} {how}" if cause == need else f"{cause} failed, and {need} needs it"
                return Answer(Outcome.NOT_RUN, reason=text, details={"cause": cause})
        if check.after_plugins and self._plugins_failed():
            return Answer(
                Outcome.NOT_RUN,
                reason=f"{PLUGINS} failed, and an engine runs them before it comes to this",
                details={"cause": PLUGINS},
            )
        if check.where == "fresh" and not self.source.importable_by_name:
            return Answer(
                Outcome.SKIPPED,
                reason="a child process cannot import a class that is local or in __main__; "
                "to run it: move the class into a module",
            )
        return None

    def _plugins_failed(self) -> bool:
        """Say whether a general plugin of the platform's is broken, unexpectedly."""
        if PLUGINS not in self.checks or PLUGINS in self.expected:
            return False
        return self.answer(PLUGINS).outcome is Outcome.FAIL

    def _blames_others(self, need: str, answer: Answer, check: Check) -> bool:
        """Say whether a failed prerequisite is about members that the check does not call."""
        blamed = {finding.member.partition(".")[0] for finding in answer.findings}
        return self.checks[need].per_member and bool(check.asks and blamed) and blamed.isdisjoint(check.asks)

    def _run(self, check: Check) -> Answer:
        ran = self.source.run(check.id, check.limit(self.source.limit))
        if ran.broken:
            return Answer(Outcome.ERROR, reason=ran.broken)
        if ran.answer is None:
            assert ran.died is not None  # a check that did not answer died
            died = ran.died
            died.output = died.output or ran.output
            found = Answer(Outcome.FAIL, (died_finding(check, died, self.opening.location),))
        else:
            found = ran.answer
        details = dict(found.details)
        if ran.output and found.outcome in (Outcome.FAIL, Outcome.ERROR) and ran.died is None:
            details["output"] = ran.output
        if ran.left:
            details["left_processes"] = ran.left
        if check.id == IMPORTABLE and self.opening.warnings:
            details["contract_warnings"] = list(self.opening.warnings)
        if check.id == IMPORTABLE:
            details |= _stand_ins(self.opening)
        return attrs.evolve(found, details=details)


def _is_said(finding: Finding, known: Sequence[Finding]) -> bool:
    """Say whether one of these findings says of the same member the same, or that and more."""
    return any(
        one.member == finding.member and one.platform_did.startswith(finding.platform_did) for one in known
    )


def _not_opened(check: Check, opening: Opening) -> Answer:
    if opening.status == "error":
        return Answer(Outcome.ERROR, reason=opening.line, traceback=opening.trace)
    finding = Finding(
        contract_says="The platform's module imports in a fresh process, on any machine, and has the class.",
        platform_did=opening.line + (f"; it printed last:\n{opening.output}" if opening.output else ""),
        member=opening.module,
        location=opening.place or frames.place(frames.read(opening.output)) or opening.module,
        hint="Make `python -c 'import "
        f"{opening.module}'` work here; import libraries of the device where they are used.",
    )
    return Answer(Outcome.FAIL, (finding,), details=_stand_ins(opening), traceback=opening.trace)


def _stand_ins(opening: Opening) -> dict[str, list[str]]:
    """For the details of the check of the import: what stands in for something; empty if nothing does."""
    return {"stubs": list(opening.stubs.names)} if opening.stubs.names else {}


def _behind(need: str, reason: str) -> str:
    return reason if reason.startswith("needs ") else f"needs {need}, which is skipped: {reason}"
