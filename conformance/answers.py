"""`Answer`: what a child says of one check, before the run's policy is applied; as JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from conformance.model import Check, CheckResult, Finding, Outcome


@attrs.frozen
class Answer:
    """What became of a check's function.

    Args:
        outcome: `pass`, `fail`, `unsupported`, `skipped`, `not-run` or `error`.
        findings: the faults, for `fail`.
        reason: one line, for every other outcome than `pass`.
        details: JSON values for the report.
        traceback: of what was raised unexpectedly; empty otherwise.
        duration_s: wall time in seconds.
    """

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    details: Mapping[str, Any] = attrs.field(factory=dict)
    traceback: str = ""
    duration_s: float = 0.0


def to_json(answer: Answer) -> dict[str, Any]:
    """Turn an answer into JSON values; a detail that JSON lacks becomes its text."""
    return {
        "outcome": answer.outcome.value,
        "findings": [attrs.asdict(one) for one in answer.findings],
        "reason": answer.reason,
        "details": json.loads(json.dumps(dict(answer.details), default=repr)),
        "traceback": answer.traceback,
        "duration_s": answer.duration_s,
    }


def from_json(data: Mapping[str, Any]) -> Answer:
    """Make an answer of what `to_json` gave."""
    return Answer(
        outcome=Outcome(data["outcome"]),
        findings=tuple(Finding(**one) for one in data["findings"]),
        reason=data["reason"],
        details=data["details"],
        traceback=data["traceback"],
        duration_s=data["duration_s"],
    )


def result_to_json(result: CheckResult) -> dict[str, Any]:
    """Turn a result into JSON values, its check as an id."""
    answer = Answer(
        result.outcome, result.findings, result.reason, result.details, result.traceback, result.duration_s
    )
    return {"id": result.check.id, **to_json(answer)}


def result_from_json(data: Mapping[str, Any], checks: Mapping[str, Check]) -> CheckResult:
    """Make a result of what `result_to_json` gave."""
    answer = from_json(data)
    return CheckResult(
        check=checks[data["id"]],
        outcome=answer.outcome,
        findings=answer.findings,
        reason=answer.reason,
        duration_s=answer.duration_s,
        details=answer.details,
        traceback=answer.traceback,
    )
