"""The table of hooks as a page of the documentation."""

from __future__ import annotations

from itertools import groupby

from platform_abc.timeline import EVERYWHERE, TIMELINE, HookTime

_INTRODUCTION = """\
# Which hook runs when

This page is generated from `platform_abc.timeline`, the table that the reference engine's tests and
the kit read too: `python -m platform_abc.timeline > docs/timeline.md`.

From top to bottom is the order of time within each process. With one process in all, it plays every
part, and what stands under *Config construction again* does not happen.

What follows for a platform: config hooks are idempotent, configs pickle, and nothing lives on the
class.
"""

_HEAD = "| what | where | how often | may change | note |\n|---|---|---|---|---|"


def markdown() -> str:
    """Return the page; neighbouring lines that differ in the name alone become one."""
    parts = [_INTRODUCTION]
    for moment, those in groupby(TIMELINE, key=lambda row: row.moment):
        table = [
            f"| {', '.join(_name(row) for row in alike)} | {' | '.join(cells)} |"
            for cells, alike in groupby(those, key=_cells)
        ]
        parts.append("\n".join([f"## {moment[0].upper()}{moment[1:]}", "", _HEAD, *table, ""]))
    return "\n".join(parts)


def _name(row: HookTime) -> str:
    return row.name if row.kind == "step" else f"`{row.name}`"


def _cells(row: HookTime) -> tuple[str, str, str, str]:
    where = (
        "every process" if row.processes == EVERYWHERE else ", ".join(each.value for each in row.processes)
    )
    return where, _how_often(row), row.may_change or "nothing", row.note


def _how_often(row: HookTime) -> str:
    if row.when:
        return row.when
    if row.most is None:
        return "once or more" if row.least else "as needed"
    return "once" if row.least else "at most once"
