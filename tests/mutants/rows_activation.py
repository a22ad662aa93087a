"""Rows of the zoo's table about detectors, the order of imports, and what an import or an activation leaves behind."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = ()
