"""Rows of the zoo's table about config hooks, processes, variables, memory and block sizes."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = ()
