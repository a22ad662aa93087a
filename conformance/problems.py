"""`UsageProblem`: what the user asked for cannot be done; one line that says what to do instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

FRONT: Final = "CONFORMANCE_FRONT"
"""Set by `platform-abc check` for the pytest that it becomes, which says options as its user typed them."""


class UsageProblem(Exception):
    """The request is wrong, not the platform: exit status 4.

    Args:
        line: one line, a hint included.
    """

    def __init__(self, line: str) -> None:
        self.line = " ".join(line.split())
        super().__init__(self.line)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known word, or an empty text."""
    folded = {name.lower(): name for name in known}
    part = word.lower()
    near = difflib.get_close_matches(part, folded, n=1, cutoff=0.6)
    if not near and len(part) > 2:
        near = [name for name in folded if part in name or name in part][:1]
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def listing(names: Iterable[str], limit: int = 8) -> str:
    """Names in one line, the rest counted."""
    all_names = list(names)
    shown = ", ".join(all_names[:limit])
    return f"{shown} and {len(all_names) - limit} more" if len(all_names) > limit else shown


def as_typed(line: str) -> str:
    """A line for a user of `platform-abc`: its options are spelled without `conformance-`."""
    return line.replace("--conformance-", "--")
