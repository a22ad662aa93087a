"""The sentences that the terminal, the report and pytest share: one result, or a group of them, as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from conformance.model import CheckResult, Finding, Outcome
from conformance.settings import Settings
from conformance.verdict import Judgement, decides

_WIDTH = 11


def label(result: CheckResult, settings: Settings) -> str:
    """The word for a result: its outcome in capitals, `WARN` for a failure that decides nothing."""
    if result.outcome is Outcome.FAIL and not decides(result, settings):
        return "WARN"
    return result.outcome.value.upper()


def block(result: CheckResult, settings: Settings) -> list[str]:
    """A result in full: what the contract says, what the platform did, where, why, how to fix."""
    check = result.check
    lines = [f"{label(result, settings)} {check.id} ({check.severity}, {check.level.label})"]
    for finding in result.findings:
        lines += _finding(finding)
    if not result.findings and result.reason:
        lines += _row("reason", result.reason)
    lines += _row("why", check.why)
    if not result.findings:
        lines += _row("fix", check.hint)
    lines += _row("docs", check.docs)
    printed = result.details.get("output")
    if printed:
        lines += _row("printed", str(printed))
    if result.traceback and (result.outcome is Outcome.ERROR or not result.findings):
        lines += _row("traceback", result.traceback)
    return lines


def short(result: CheckResult) -> str:
    """A result in one line."""
    if result.findings:
        first = result.findings[0]
        return printable(f"{first.member}: {first.platform_did.splitlines()[0]}")
    return printable(result.reason.splitlines()[0]) if result.reason else result.outcome.value


def groups(results: Iterable[CheckResult], settings: Settings, *, shown: Collection[str]) -> list[str]:
    """Everything below the failures: warnings, errors, expected failures, skipped, not run, unsupported.

    Args:
        results: all of them.
        settings: of the run.
        shown: ids of checks whose failure somebody else has printed in full.
    """
    every = list(results)
    lines: list[str] = []
    for one in every:
        warned = one.outcome is Outcome.FAIL and not decides(one, settings)
        bad = one.outcome in (Outcome.FAIL, Outcome.ERROR)
        if warned or (bad and one.check.id not in shown):
            lines += [*block(one, settings), ""]
    lines += _by(every, Outcome.XFAIL, "expected failures")
    lines += _by(every, Outcome.XPASS, "passed, though expected to fail")
    lines += _by(every, Outcome.UNSUPPORTED, "declared unsupported")
    lines += _by(every, Outcome.SKIPPED, "skipped")
    lines += _by(every, Outcome.NOT_RUN, "not run")
    return lines


def verdict_line(judgement: Judgement, platform: str, results: Iterable[CheckResult]) -> str:
    """The last line of a run: the verdict, the platform, the counts."""
    counts = counted(results)
    told = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    return f"{judgement.verdict.value}: {platform} ({judgement.because}{'; ' if told else ''}{told})"


def counted(results: Iterable[CheckResult]) -> dict[str, int]:
    """How many results there are of each outcome; every outcome is a key."""
    counts = {one.value: 0 for one in Outcome}
    for result in results:
        counts[result.outcome.value] += 1
    return counts


def _finding(finding: Finding) -> list[str]:
    return [
        *_row("contract", finding.contract_says),
        *_row("platform", finding.platform_did),
        *_row("member", finding.member),
        *_row("where", finding.location),
        *_row("fix", finding.hint),
    ]


def printable(text: str) -> str:
    """Text of a platform without codes that would move the cursor or hide what is printed."""
    return "".join(one if one in "\n\t" or one.isprintable() else "�" for one in text)


def _row(name: str, text: str) -> list[str]:
    first, *rest = printable(text).rstrip().splitlines() or [""]
    return [f"  {name:<{_WIDTH}}{first}", *(f"  {'':<{_WIDTH}}{line}" for line in rest)]


def _by(results: Sequence[CheckResult], outcome: Outcome, title: str) -> list[str]:
    """The results of one outcome, grouped by what they have in common."""
    grouped: dict[str, list[str]] = {}
    for one in results:
        if one.outcome is outcome:
            cause = one.details.get("cause")
            reason = one.reason
            if outcome is Outcome.NOT_RUN:
                reason = f"because {cause} did not pass" if cause else f"because {one.reason}"
            grouped.setdefault(printable(" ".join(reason.split())), []).append(one.check.id)
    if not grouped:
        return []
    lines = [f"{title} ({sum(len(ids) for ids in grouped.values())}):"]
    for reason, ids in grouped.items():
        lines.append(f"  {reason or 'no reason given'}")
        lines += [f"    {one}" for one in ids]
    return [*lines, ""]
