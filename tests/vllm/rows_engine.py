"""Rows of vLLM's zoo about what an engine that runs shows; its classes are in `zoo_engine.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = ()
