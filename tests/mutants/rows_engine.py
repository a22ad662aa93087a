"""Rows of the zoo's table about what an engine run shows."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

_PLAIN: Final = "engine:Unusual"

ROWS: Final = (
    Mutant("engine:ManyTokens", "engine.in-process", "engine:ManyTokensTwin"),
    Mutant("engine:LongPrompts", "engine.in-process", "right:FewSizes"),
    Mutant("engine:SecondLoad", "worker.start", _PLAIN),
    Mutant("engine:Stale", "worker.steps", _PLAIN),
    Mutant("engine:Drifting", "worker.steps", _PLAIN),
    Mutant("engine:Mixing", "worker.steps", _PLAIN),
    Mutant("engine:Beyond", "worker.steps", _PLAIN),
    Mutant("engine:Leaves", "worker.steps", _PLAIN),
    Mutant("engine:NeedsFront", "engine.processes", _PLAIN),
    Mutant("engine:CoreRefuses", "engine.processes", _PLAIN),
    Mutant("engine:CoreGrows", "engine.processes", _PLAIN),
    Mutant("engine:WorkerNeedsFront", "engine.processes", _PLAIN),
    Mutant("engine:OtherTokens", "engine.same-tokens", _PLAIN),
    Mutant("engine_model:DoublesNorms", "engine.tokens", "right:FewSizes"),
    Mutant("engine_model:SmallBlocks", "engine.block-sizes", _PLAIN),
    Mutant("engine_model:NeverReleased", "engine.requests", _PLAIN),
    Mutant("engine_model:OneRank", "engine.tensor-parallel", "engine_model:TwoRanks"),
    Mutant("engine:RunsHooks", "engine.timeline", _PLAIN),
    Mutant("engine:LeavesProcess", "engine.stops", "engine:LeavesProcessTwin"),
    Mutant("engine:LeavesMemory", "engine.stops", _PLAIN),
    Mutant("engine:LeavesThread", "engine.stops", "engine:LeavesThreadTwin"),
)
"""Every mutant of the native base that only a run of the engine shows."""
