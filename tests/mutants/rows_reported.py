"""Rows of the zoo's table about faults that people reported, where no other family has them already."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = (
    Mutant("reported:BehindItsBase", "members.mandatory", "reported:WithItsBase"),
    Mutant("reported:NoHeads", "members.engine-calls"),
    Mutant("reported:NameNeedsNumber", "members.engine-calls"),
    Mutant("reported:MemoryUnread", "device.memory", "reported:MemoryElsewhere"),
    Mutant("reported:NoSetDevice", "worker.start"),
    Mutant("reported:NoUnits", "device.facts"),
    Mutant("reported:ChoosesByDevice", "pickers.compile-backend", "pickers:CompileEager"),
)
