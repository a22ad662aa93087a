"""Rows of vLLM's zoo about what an engine that runs shows; its classes are in `zoo_engine.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final = (
    Mutant("zoo_engine:LongPromptRefused", "engine.in-process", "zoo_engine:LongPromptTwin"),
    Mutant("zoo_engine:KindOutOfTree", "engine.in-process", "zoo_engine:LongPromptTwin"),
    Mutant("zoo_engine:CoreGrows", "engine.processes", "zoo_engine:LongPromptTwin"),
    Mutant("zoo_engine:CoreRefuses", "engine.processes", "zoo_engine:LongPromptTwin"),
    Mutant("zoo_engine:WorkerNeedsFront", "engine.processes", "zoo_engine:LongPromptTwin"),
    Mutant("zoo_engine:ClassStateRead", "config.class-state", "zoo_engine:ClassStateReadTwin"),
)
"""Mutants of vLLM's base whose fault shows, or shows as well, when the engine runs."""
