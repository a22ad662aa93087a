"""The list of checks, for `--conformance-list` and `platform-abc list`."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.model import Check


def listing_lines(checks: Iterable[Check]) -> list[str]:
    """One line per check: id, severity, level, since, why; the last line counts them."""
    every = list(checks)
    width = max((len(one.id) for one in every), default=0)
    lines = [
        f"{one.id:<{width}}  {one.severity:<6}  {one.level.label:<10}  {one.since:<4} {one.why}"
        for one in every
    ]
    return [*lines, f"{len(every)} checks"]
