"""The values of a benchmark: rows, and the bounds that some of them have to keep."""

from __future__ import annotations

from typing import Literal

import attrs

Unit = Literal["ns", "ms", "s", "MB", "modules"]


@attrs.frozen
class Bound:
    """A target.

    Args:
        kind: `ratio` bounds ours / theirs, `value` bounds ours alone, in the row's unit.
        limit: the largest number that meets it.
        source: what it bounds, in words for the table.
    """

    kind: Literal["ratio", "value"]
    limit: float
    source: str = ""


@attrs.frozen
class Row:
    """One measured thing.

    Args:
        section: heading under which it is shown.
        what: what was measured, in a few words.
        unit: of both numbers.
        ours: our number.
        theirs: the number it is compared with; None where nothing was there to compare with.
        versus: what `theirs` is.
        bound: the target, if there is one.
        note: anything that a reader must know to read the number.
    """

    section: str
    what: str
    unit: Unit
    ours: float
    theirs: float | None = None
    versus: str = "vLLM"
    bound: Bound | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours divided by theirs; None without a counterpart."""
        return None if not self.theirs else self.ours / self.theirs

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none or nothing to compare with."""
        if self.bound is None:
            return None
        if self.bound.kind == "value":
            return self.ours <= self.bound.limit
        return None if self.ratio is None else self.ratio <= self.bound.limit
