"""The verdict is a pure function of results and settings."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.model import Check, CheckResult, Finding, Level, Outcome
from conformance.settings import Settings
from conformance.verdict import Judgement, Verdict, judge

FINDING = Finding("It is so.", "it is not", "member", "file:1", "Mend it.")


def result(
    outcome: Outcome, *, severity: Any = "must", level: Level = Level.CONTRACT, **details: Any
) -> CheckResult:
    """A result of a check that does not matter."""
    check = Check(
        id=f"identity.{outcome.value}", group="identity", severity=severity, level=level, since="1.0",
        why="w", hint="h", func=lambda ctx: None,
    )  # fmt: skip
    return CheckResult(check, outcome, (FINDING,) if outcome is Outcome.FAIL else (), "r", details=details)


@pytest.mark.parametrize(
    ("outcomes", "verdict", "status"),
    [
        ([Outcome.PASS, Outcome.UNSUPPORTED, Outcome.XFAIL], Verdict.CONFORMANT, 0),
        ([Outcome.PASS, Outcome.SKIPPED], Verdict.PARTIAL, 0),
        ([Outcome.PASS, Outcome.NOT_RUN], Verdict.PARTIAL, 0),
        ([Outcome.SKIPPED], Verdict.PARTIAL, 0),
        ([Outcome.PASS, Outcome.FAIL], Verdict.NOT_CONFORMANT, 1),
        ([Outcome.FAIL, Outcome.ERROR, Outcome.SKIPPED], Verdict.NOT_CONFORMANT, 1),
        ([Outcome.PASS, Outcome.XPASS], Verdict.NOT_CONFORMANT, 1),
        ([Outcome.PASS, Outcome.ERROR, Outcome.SKIPPED], Verdict.UNDETERMINED, 3),
        ([], Verdict.NONE, 4),
    ],
)
def test_the_worst_outcome_decides(outcomes: list[Outcome], verdict: Verdict, status: int) -> None:
    """A failure before an error before a skip; nothing at all is no verdict."""
    judgement = judge([result(one) for one in outcomes], Settings())
    assert (judgement.verdict, judgement.exit_status) == (verdict, status)
    assert judgement.because


def test_an_interrupt_goes_before_everything() -> None:
    """A run that was stopped says so, whatever failed before."""
    judgement = judge([result(Outcome.FAIL)], Settings(), interrupted=True)
    assert (judgement.verdict, judgement.exit_status) == (Verdict.INTERRUPTED, 2)


def test_a_should_decides_only_when_strict() -> None:
    """A failing `should` is conformant, and not conformant when strict."""
    soft = result(Outcome.FAIL, severity="should")
    assert judge([soft], Settings()).verdict is Verdict.CONFORMANT
    assert judge([soft], Settings(strict=True)).verdict is Verdict.NOT_CONFORMANT


def test_a_pinned_contract_beats_strict() -> None:
    """A check newer than the pinned contract decides nothing, strict or not."""
    settings = Settings(strict=True, contract="0.9")
    assert judge([result(Outcome.FAIL)], settings).verdict is Verdict.CONFORMANT


def test_a_lenient_expected_failure_may_pass() -> None:
    """`strict = false` in the entry: passing decides nothing."""
    assert judge([result(Outcome.XPASS, strict=False)], Settings()).verdict is Verdict.CONFORMANT


@pytest.mark.parametrize(
    ("level", "required", "status"),
    [(Level.DEVICE, Level.DEVICE, 1), (Level.CONTRACT, Level.DEVICE, 1), (Level.ENGINE, Level.DEVICE, 0)],
)
def test_a_requirement_names_a_level_and_the_cheaper_ones(level: Level, required: Level, status: int) -> None:
    """Only a skip at that level or a cheaper one makes the run fail, and the line names the option."""
    judgement = judge([result(Outcome.SKIPPED, level=level)], Settings(require=required))
    assert (judgement.verdict, judgement.exit_status) == (Verdict.PARTIAL, status)
    assert ("--conformance-require device" in judgement.because) is bool(status)


def test_a_judgement_is_a_value() -> None:
    """Two equal judgements are equal."""
    assert judge([result(Outcome.PASS)], Settings()) == Judgement(Verdict.CONFORMANT, 0, "1 check")
