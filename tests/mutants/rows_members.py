"""Rows of the zoo's table about members, signatures, picked classes, flags and lists."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = ()
