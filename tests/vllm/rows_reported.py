"""Rows of vLLM's zoo about faults that people reported; its classes are in `zoo_reported.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

_GOOD: Final = "zoo:Good"

ROWS: Final[tuple[Mutant, ...]] = (
    Mutant("zoo_reported:SectionNeedsKey", "config.options", "zoo_reported:SectionMayLackKey"),
    Mutant("zoo_reported:SwitchOverwritten", "config.environment-kept", "zoo_reported:SwitchByDefault"),
    Mutant("zoo_reported:SwitchUnlisted", "config.environment-reaches-workers", "zoo_reported:SwitchListed"),
    Mutant("zoo_reported:BlockSizesDiffer", "config.block-size-chain", _GOOD),
    Mutant("zoo_reported:IdentifierCrashes", "device.id-errors", "zoo_reported:IdentifierNamed"),
    Mutant("zoo_reported:CapabilityOfAnother", "device.capability-kind", _GOOD),
    Mutant("zoo_reported:LoraMadeOld", "pickers.signatures", _GOOD),
    Mutant("zoo_reported:CommunicatorGathersOld", "pickers.signatures", _GOOD),
    Mutant("zoo_reported:BackendNameUnknown", "pickers.attn-backend.name", _GOOD),
    Mutant("zoo_reported:LibrariesTogether", "kernels.libraries", "zoo:ImportKernelsTwin"),
    Mutant("zoo_reported:Misspells", "members.misspelt", _GOOD),
)
