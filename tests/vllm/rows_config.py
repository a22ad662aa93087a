"""Rows of vLLM's zoo about config hooks, processes, variables, memory and block sizes; its classes are in `zoo_config.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = ()
