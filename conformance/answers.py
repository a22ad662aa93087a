"""`Answer`: what a child says of one check, before the run's policy is applied; as JSON and back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import attrs

from conformance.model import Check, CheckResult, Finding, Outcome

_DEPTH: Final = 12


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
    details: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    traceback: str = ""
    duration_s: float = 0.0


def to_json(answer: Answer) -> dict[str, Any]:
    """Turn an answer into JSON values; a detail that JSON lacks becomes its text."""
    return {
        "outcome": answer.outcome.value,
        "findings": [
            {name: clip(text) for name, text in attrs.asdict(one).items()} for one in answer.findings
        ],
        "reason": clip(answer.reason),
        "details": {str(name): plain(value) for name, value in answer.details.items()},
        "traceback": answer.traceback,
        "duration_s": answer.duration_s,
    }


def plain(value: object, depth: int = 0) -> Any:
    """A value as JSON has it: containers by their content, everything else by its text.

    Args:
        value: anything.
        depth: how many containers it lies in; beyond a dozen only the type is told.
    """
    if isinstance(value, str):
        return clip(str(value))
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > _DEPTH:
        return f"<{type(value).__name__}>"
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {_text(name): plain(one, depth + 1) for name, one in entries.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one, depth + 1) for one in cast("Collection[object]", value)]
    return _text(value)


def _text(value: object) -> str:
    try:
        return clip(value if isinstance(value, str) else repr(value))
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"


def clip(text: str, limit: int = 4000) -> str:
    """A text for a reader: of one that is too long, the start and the end."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]} … ({len(text) - limit} characters left out) … {text[-(limit // 2) :]}"


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
