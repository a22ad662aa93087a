"""Rows of vLLM's zoo about members, pickers, answers, signatures and flags; its classes are in `zoo_members.py`."""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant

ROWS: Final[tuple[Mutant, ...]] = (
    Mutant("zoo_members:Bare", "fallback.engine-names", "zoo_members:BareTwin"),
    Mutant("zoo_members:OldHook", "members.stale", "zoo_members:OwnHelpers"),
    Mutant("zoo_members:MisspeltHook", "members.misspelt", "zoo_members:OwnHelpers"),
    Mutant("zoo_members:MixinLast", "members.hidden", "zoo_members:MixinFirst"),
    Mutant("zoo_members:SetOnInstance", "members.one-answer", "zoo_members:MixinFirst"),
    Mutant("zoo_members:ImportsLater", "members.while-importing", "zoo_members:PinsNot"),
    Mutant("zoo_members:MainThreadOnly", "members.other-thread", "zoo_members:OwnHelpers"),
    Mutant("zoo_members:Pins", "capabilities.pin-memory", "zoo_members:PinsNot"),
    Mutant("zoo_members:UnknownMethod", "capabilities.quantization-known", "zoo_members:KnownMethods"),
    Mutant("zoo_members:AcceptsAnyMethod", "capabilities.quantization", "zoo_members:KnownMethods"),
    Mutant("zoo_members:CudaNumbers", "device.capability-kind", "zoo_members:OwnHelpers"),
    Mutant("zoo_members:NamesUnknown", "pickers.attn-backend.name", "zoo_members:NamesCustom"),
    Mutant("zoo_members:BuilderOld", "pickers.signatures", "zoo_members:NamesCustom"),
    Mutant("zoo_members:LoraOld", "pickers.signatures", "zoo_members:LoraNew"),
    Mutant("zoo_members:LoraLater", "pickers.complete", "zoo_members:LoraNew"),
    Mutant("zoo_members:CommunicatorOld", "pickers.signatures", "zoo_members:CommunicatorNew"),
    Mutant("zoo_members:NamesLatentPrefill", "pickers.mla-prefill", "zoo_members:GivesLatentPrefill"),
    Mutant("zoo_members:NoBackend", "pickers.attn-backend.answered", "zoo_members:NamesCustom"),
    Mutant("zoo_members:NoRay", "identity.ray-key", "zoo_members:OwnHelpers"),
)
