"""Rows of vLLM's zoo about config hooks, variables, memory and block sizes; its classes are in `zoo_config.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = (
    Mutant("zoo_config:OptionCrash", "config.options", "zoo_config:OptionTwin"),
    Mutant("zoo_config:SeqsFixed", "config.user-values", "zoo_config:SeqsLimitedTwin"),
    Mutant("zoo_config:EagerOff", "config.user-values", "zoo_config:SeqsLimitedTwin"),
    Mutant("zoo_config:OpsReplaced", "config.user-lists", "zoo_config:OpsExtendedTwin"),
    Mutant("zoo_config:HashFails", "config.hash", "zoo_config:HashTwin"),
    Mutant("zoo_config:ConfigKept", "config.module-state", "zoo_config:HashTwin"),
    Mutant("zoo_config:VariableOverwritten", "config.environment-kept", "zoo_config:VariableTwin"),
    Mutant(
        "zoo_config:VariableUnlisted", "config.environment-reaches-workers", "zoo_config:VariableListedTwin"
    ),
    Mutant("zoo_config:DevicesNarrowed", "config.device-variable-kept", "zoo_config:VariableTwin"),
    Mutant("zoo_config:IdIgnored", "device.id-lists", "zoo_config:IdTwin"),
    Mutant("zoo_config:IdCrashes", "device.id-errors", "zoo_config:IdTwin"),
    Mutant("zoo_config:UuidUnmapped", "device.id-queries", "zoo_config:UuidTwin"),
    Mutant("zoo_config:MemoryShrinks", "device.memory-plausible", "zoo_config:MemoryTwin"),
    Mutant("zoo_config:SizeResetLater", "config.block-size-chain", "zoo_config:SizeTwin"),
    Mutant("zoo_config:PagesTooSmall", "config.block-size-hybrid", "zoo_config:SizeTwin"),
    Mutant("zoo_config:ParserClosed", "config.parser-usable", "zoo_config:ParserTwin"),
    Mutant("zoo_config:NotedTwice", "config.two-step", "zoo_config:OptionTwin"),
)
