"""Rows of the zoo's table about config hooks, processes, variables, memory and block sizes."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = (
    Mutant("hooks:SectionNeedsKey", "config.options", "hooks:SectionMayBeNone"),
    Mutant("hooks:LoopsOverOptions", "config.options", "hooks:RefusesSection"),
    Mutant("hooks:SeqsFixed", "config.user-values", "hooks:SeqsLimited"),
    Mutant("hooks:GraphsOn", "config.user-values", "hooks:GraphsOff"),
    Mutant("hooks:BackendReplaced", "config.user-values"),
    Mutant("hooks:SeedFixed", "config.user-values"),
    Mutant("hooks:OpsReplaced", "config.user-lists", "hooks:OpsExtended"),
    Mutant("hooks:OptionRequired", "config.parser-usable", "hooks:OptionAdded"),
    Mutant("hooks:HelpBroken", "config.parser-usable", "hooks:OptionAdded"),
    Mutant("hooks:OptionTaken", "config.parser-usable", "hooks:OptionAdded"),
    Mutant("hooks:MarksConfig", "config.two-step", "hooks:WaitsForModel"),
    Mutant("hooks:WantsGraphs", "config.engine-accepts", "right:FewSizes"),
    Mutant("hooks:RefusesCopy", "config.copyable", "hooks:OwnCopy"),
    Mutant("hooks:SharesCopy", "config.copyable", "hooks:OwnCopy"),
    Mutant("hooks:ConfigInModule", "config.module-state", "hooks:LogsOnce"),
    Mutant("hooks:DerivedInModule", "config.module-state", "hooks:LogsOnce"),
    Mutant("hooks:WorkerElsewhere", "spawn.worker-agrees", "hooks:LogsOnce"),
    Mutant("sizes:SetEarly", "config.block-size-chain", "sizes:SetLarger"),
    Mutant("sizes:SetTwice", "config.block-size-chain", "sizes:SetLarger"),
    Mutant("sizes:NotForBackend", "config.block-size-chain", "sizes:ForBackend"),
    Mutant("sizes:FailsWithLayers", "config.block-size-chain", "config:KeepsBlockSize"),
    Mutant("sizes:StateTooLarge", "config.block-size-hybrid", "config:KeepsBlockSize"),
    Mutant("sizes:StalePadding", "config.block-size-hybrid"),
    Mutant("sizes:UndoneLater", "config.block-size-hybrid"),
    Mutant("variables:Overwrites", "config.environment-kept", "variables:SetsDefault"),
    Mutant("variables:ReplacesPath", "config.environment-kept", "variables:ExtendsPath"),
    Mutant("variables:DropsProxy", "config.environment-kept"),
    Mutant("variables:QuantizationWrites", "config.environment-kept"),
    Mutant("variables:HidesDevices", "config.device-variable-kept"),
    Mutant("variables:DropsDevices", "config.device-variable-kept"),
    Mutant("variables:Unlisted", "config.environment-reaches-workers", "variables:Listed"),
    Mutant("variables:IgnoresVariable", "device.id-lists", "variables:NamesVariable"),
    Mutant("variables:ReadAtImport", "device.id-lists", "variables:NamesVariable"),
    Mutant("variables:NoTrailingComma", "device.id-lists", "variables:NamesVariable"),
    Mutant("variables:IdentifierCrashes", "device.id-errors", "variables:NamesVariable"),
    Mutant("variables:CountsFromEnd", "device.id-errors", "variables:NamesVariable"),
    Mutant("variables:UuidUnmapped", "device.id-queries", "variables:UuidMapped"),
    Mutant("variables:CountsAtImport", "device.count-follows", "variables:CountsAtImportTold"),
    Mutant("variables:MemoryInKib", "device.memory-plausible"),
    Mutant("variables:MemoryShrinks", "device.memory-plausible"),
    Mutant("variables:MemoryPooled", "device.memory-agrees", "variables:MemoryAlike"),
    Mutant("variables:MemoryGone", "device.memory-agrees", "variables:MemoryAlike"),
    Mutant("variables:LibrariesTogether", "kernels.libraries", "variables:LibrariesApart"),
)
