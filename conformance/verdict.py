"""The verdict over all results, and the exit status that follows from it."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs

from conformance.model import IMPORTABLE, CheckResult, Outcome
from conformance.plan import informative
from conformance.settings import Settings


class Verdict(enum.Enum):
    """What a run says of a platform."""

    CONFORMANT = "conformant"
    PARTIAL = "partial"
    NOT_CONFORMANT = "not conformant"
    UNDETERMINED = "undetermined"
    INTERRUPTED = "interrupted"
    NONE = "none"


@attrs.frozen
class Judgement:
    """A verdict and what follows.

    Args:
        verdict: the verdict.
        exit_status: 0 to 4.
        because: a phrase that says what decided.
    """

    verdict: Verdict
    exit_status: int
    because: str


NOTHING = Judgement(Verdict.NONE, 4, "no check was collected")


def judge(results: Iterable[CheckResult], settings: Settings, *, interrupted: bool = False) -> Judgement:
    """Judge the results of a run; what it came to with stand-ins says so."""
    every = list(results)
    found = _judge(every, settings, interrupted=interrupted)
    stubs = stand_ins(every)
    if not stubs:
        return found
    return attrs.evolve(found, because=f"{found.because}, with a stand-in for {', '.join(stubs)}")


def _judge(every: list[CheckResult], settings: Settings, *, interrupted: bool) -> Judgement:
    counted = [one for one in every if decides(one, settings)]
    failed = [one for one in counted if one.outcome is Outcome.FAIL]
    surprises = [one for one in every if one.outcome is Outcome.XPASS and one.details.get("strict", True)]
    errors = [one for one in every if one.outcome is Outcome.ERROR]
    unproved = [one for one in every if one.outcome in (Outcome.SKIPPED, Outcome.NOT_RUN)]
    if interrupted:
        return Judgement(Verdict.INTERRUPTED, 2, "the run was interrupted; the report has what ran")
    if failed or surprises:
        parts = [_count(failed, "check failed", "checks failed")] if failed else []
        if surprises:
            parts.append(_count(surprises, "expected failure passed", "expected failures passed"))
        return Judgement(Verdict.NOT_CONFORMANT, 1, ", ".join(parts))
    if errors:
        return Judgement(
            Verdict.UNDETERMINED, 3, _count(errors, "check could not judge", "checks could not judge")
        )
    if not every:
        return NOTHING
    if unproved:
        because = _count(unproved, "check did not run here", "checks did not run here")
        required = settings.require
        missed = [one for one in unproved if required is not None and one.check.level <= required]
        if required is not None and missed:
            because += f", {len(missed)} of them required by --conformance-require {required.label}"
        return Judgement(Verdict.PARTIAL, 1 if missed else 0, because)
    verdict = Verdict.PARTIAL if stand_ins(every) else Verdict.CONFORMANT
    return Judgement(verdict, 0, _count(every, "check", "checks"))


def stand_ins(results: Iterable[CheckResult]) -> tuple[str, ...]:
    """The modules that stand-ins took the place of; with any, a platform is `partial` at best."""
    return tuple(
        str(name) for one in results if one.check.id == IMPORTABLE for name in one.details.get("stubs", ())
    )


def decides(result: CheckResult, settings: Settings) -> bool:
    """Say whether a failure of this check makes the platform not conformant."""
    if informative(result.check, settings):
        return False
    return settings.strict or result.check.severity == "must"


def _count(what: list[CheckResult], one: str, many: str) -> str:
    return f"{len(what)} {one if len(what) == 1 else many}"
