"""The JSON report: everything a run knows, in one shape that programs may rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from conformance.facts import environment_facts, kit_version
from conformance.model import CheckResult, Finding
from conformance.plan import informative
from conformance.settings import Settings
from conformance.verdict import Judgement, stand_ins
from conformance.words import counted
from platform_abc.errors import CONTRACT_VERSION

SCHEMA: Final = 1


@attrs.frozen
class Run:
    """A run that has ended.

    Args:
        platform: the class's dotted name, or what the user asked for.
        settings: of the run.
        judgement: what it came to.
        results: of every check in scope, in order.
        facts: what `conformance.facts.device_facts` found; may be empty.
        problem: the line of a run that came to no verdict; empty otherwise.
    """

    platform: str
    settings: Settings
    judgement: Judgement
    results: Sequence[CheckResult] = ()
    facts: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    problem: str = ""


def build(run: Run) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "schema": SCHEMA,
        "kit": kit_version(),
        "contract": run.settings.contract or CONTRACT_VERSION,
        "engine": run.facts.get("engine") or {"name": run.settings.engine, "version": None},
        "platform": {
            "qualname": run.platform,
            "distribution": run.facts.get("distribution"),
            "version": run.facts.get("version"),
            "device": run.facts.get("device"),
        },
        "environment": {**environment_facts(), "stubs": list(stand_ins(run.results))},
        "verdict": run.judgement.verdict.value,
        "because": run.problem or run.judgement.because,
        "exit_status": run.judgement.exit_status,
        "counts": counted(run.results),
        "checks": [_check(one, run.settings) for one in run.results],
    }


def text(run: Run) -> str:
    """The report as it stands in its file."""
    return json.dumps(build(run), indent=2, ensure_ascii=False) + "\n"


def _check(result: CheckResult, settings: Settings) -> dict[str, Any]:
    check = result.check
    first = result.findings[0] if result.findings else None
    return {
        "id": check.id,
        "group": check.group,
        "severity": check.severity,
        "level": check.level.label,
        "outcome": result.outcome.value,
        "member": first.member if first else None,
        "contract_says": first.contract_says if first else None,
        "platform_did": first.platform_did if first else None,
        "location": first.location if first else None,
        "why": check.why,
        "hint": first.hint if first else check.hint,
        "duration_s": round(result.duration_s, 4),
        "reason": result.reason or None,
        "since": check.since,
        "docs": check.docs,
        "informative": informative(check, settings),
        "findings": [_finding(one) for one in result.findings],
        "details": dict(result.details),
        "traceback": result.traceback or None,
    }


def _finding(finding: Finding) -> dict[str, str]:
    return dict(attrs.asdict(finding))
