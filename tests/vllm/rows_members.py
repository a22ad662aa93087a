"""Rows of vLLM's zoo about members, pickers, answers, signatures and flags; its classes are in `zoo_members.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = ()
