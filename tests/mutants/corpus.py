"""Faults that people reported of real platforms, and the mutant that has the same one."""

from __future__ import annotations

from typing import Final

import attrs

_GH: Final = "https://github.com/"


@attrs.frozen
class Case:
    """One reported fault.

    Args:
        id: its number.
        url: of the public report.
        fault: what a platform with it does.
        mutant: the mutant of the native base that has it, as in the table; empty if no platform can.
        check: the check that names it.
        vllm: the mutant of vLLM's base; empty where the native one is enough.
        why_not: why there is no mutant.
    """

    id: str
    url: str
    fault: str
    mutant: str = ""
    check: str = ""
    vllm: str = ""
    why_not: str = ""


def _case(number: str, url: str, fault: str, mutant: str, check: str, vllm: str = "") -> Case:
    return Case(number, _GH + url, fault, mutant, check, vllm)


def _engine(number: str, url: str, fault: str) -> Case:
    return Case(number, _GH + url, fault, why_not="the engine alone is at fault, so no platform has it")


def _elsewhere(number: str, url: str, fault: str, why_not: str) -> Case:
    return Case(number, _GH + url, fault, why_not=why_not)


CASES: Final = (
    _case("B01", "vllm-project/vllm/issues/48277", "The detector raises, and counts as a no.", "chip_raises:Raises", "detection.detector"),
    _case("B02", "vllm-project/vllm-metal/pull/471", "The detector says no once another library is loaded.", "chip_crowded:Crowded", "detection.detector"),
    _case("B03", "vllm-project/vllm/issues/40081", "The detector lets the error of a driver's library out.", "chip_raises:Raises", "detection.detector"),
    _case("B04", "vllm-project/vllm/issues/11739", "The detector says yes without a look for the device.", "chip_claims.platform:Claims", "detection.says-no"),
    _case("B05", "sgl-project/sglang/pull/21388", "A part of the package that the detector imports was not shipped.", "chip_unpackaged:Unpackaged", "detection.detector"),
    _engine("B06", "sgl-project/sglang/pull/25337", "The default device is guessed without the plugin's platform."),
    _case("B08", "RBLN-SW/vllm-rbln/pull/876", "The package imports the engine before its detector is defined.", "chip_banner.platform:Banner", "import-order.plugin-first"),
    _case("B09", "ROCm/ATOM/pull/2275", "The detector imports parts of the engine to register things.", "chip_busy:Busy", "activation.engine-imports"),
    _case("B10", "vllm-project/vllm-ascend/issues/19", "The detector asks for the current platform, which is being resolved.", "chip_nested:Nested", "detection.resolves"),
    _engine("B12", "vllm-project/vllm/pull/28758", "An import of the engine comes back to the platform in a circle."),
    _engine("B13", "vllm-project/vllm/issues/48397", "A query at import time needs a half-imported package of the engine."),
    _case("B15", "vllm-project/vllm-ascend/pull/10146", "The first config of a process decides for all later ones.", "config:FirstConfigWins", "config.independent"),
    _engine("B17", "vllm-project/vllm/pull/16601", "A module keeps the platform that was current at its import."),
    _case("B18", "vllm-project/vllm/pull/43180", "A name that nobody defines answers with something else than the base says.", "fallback:InventsAnswers", "fallback.unknown-name"),
    _engine("B19", "vllm-project/vllm/pull/32787", "`hasattr` says yes for a method that no platform has."),
    _case("B20", "areal-project/AReaL/pull/672", "An own `__getattr__` answers None to everything.", "fallback:DropsTorch", "fallback.live"),
    _case("B22", "ericcurtin/vllm-vulkan/issues/15", "The seed hook that every start calls is left to the base, which raises.", "members:NoSeed", "members.common-path", "zoo:SeedNotImplemented"),
    _case("B23", "tenstorrent/vllm-tt-plugin/pull/6", "Choosing the device is left to the base, which raises.", "reported:NoSetDevice", "worker.start"),
    _case("B24", "ericcurtin/vllm-vulkan/pull/84", "Nothing says how many compute units the device has.", "reported:NoUnits", "device.facts"),
    _case("B26", "deepspeedai/DeepSpeed/pull/5134", "An abstract member stays open.", "identity:Forgetful", "members.mandatory"),
    _case("B27", "intel/intel-extension-for-deepspeed/issues/81", "A base of the vendor's own grew an abstract member that the platform lacks.", "reported:BehindItsBase", "members.mandatory"),
    _case("B29", "vllm-project/vllm-metal/pull/49", "The attention picker has the parameters of an older engine.", "members:OldPicker", "members.engine-calls", "zoo:AttentionWithoutHeads"),
    _case("B30", "vllm-project/vllm-metal/pull/262", "The attention picker lacks the newest keyword.", "reported:NoHeads", "members.engine-calls", "zoo:AttentionWithoutHeads"),
    _elsewhere("B31", "vllm-project/vllm-gaudi/pull/76", "The attention picker lacks a parameter that the engine adds tomorrow.", "a platform that fits the installed engine has no fault; beside the next engine it fails members.engine-signature"),
    _case("B33", "vllm-project/vllm-ascend/pull/5800", "The LoRA wrapper cannot be made with the engine's keywords.", "surfaces:LoraMadeOld", "pickers.signatures", "zoo_reported:LoraMadeOld"),
    _case("B34", "vllm-project/vllm-ascend/issues/2576", "The backend's metadata builder lacks a keyword of the engine's call.", "surfaces:BackendMetadataOld", "pickers.signatures"),
    _case("B35", "deepspeedai/DeepSpeed/pull/3907", "A parameter that has a default in the base has none here.", "reported:NameNeedsNumber", "members.engine-calls"),
    _engine("B37", "vllm-project/vllm/pull/13378", "The base itself names a communicator that does not exist."),
    _case("B38", "flagos-ai/vllm-plugin-FL/issues/199", "The platform's module imports what the installed engine does not have.", "breaks_import:NeverThere", "platform.importable"),
    _case("B40", "deepspeedai/DeepSpeed/pull/4963", "A picker names a class of a package that was not shipped.", "pickers:CommunicatorMissing", "pickers.communicator.importable", "zoo:CommunicatorBadName"),
    _case("B42", "vllm-project/vllm-ascend/issues/592", "The LoRA picker names a class of a package that was not shipped.", "pickers:LoraMissing", "pickers.lora.importable", "zoo:LoraRaises"),
    _case("B43", "ROCm/ATOM/issues/683", "The attention backend lacks a method that the engine calls.", "pickers:AttentionHalf", "pickers.attn-backend.surface", "zoo:AttentionNoBackend"),
    _case("B45", "vllm-project/vllm-ascend/issues/4197", "The attention backend has a name that the engine does not know.", "surfaces:BackendNameUnknown", "pickers.attn-backend.name", "zoo_reported:BackendNameUnknown"),
    _engine("B46", "sgl-project/sglang/pull/28113", "A helper answers before it asks the platform."),
    _engine("B47", "sgl-project/sglang/pull/31428", "A helper never asks the platform."),
    _case("B49", "vllm-project/vllm-ascend/pull/9205", "An override does what the base does.", "dead:CopiesBase", "members.redundant"),
    _case("B51", "vllm-project/vllm-metal/pull/602", "A device that is not like CUDA announces a capability of CUDA.", "flags:FakesCapability", "device.capability-kind", "zoo_reported:CapabilityOfAnother"),
    _case("B52", "vllm-project/vllm/pull/20695", "The config hook reads the model where there is none.", "config:NeedsModel", "config.optional-parts", "zoo:ModelNoneCrash"),
    _case("B54", "vllm-project/vllm-ascend/pull/13901", "The config hook indexes into options that the user did not give.", "hooks:SectionNeedsKey", "config.options", "zoo_reported:SectionNeedsKey"),
    _case("B56", "vllm-project/tpu-inference/pull/2399", "Loading the model changes the live config.", "workers:ChangesConfig", "worker.config-kept"),
    _engine("B57", "vllm-project/vllm-omni/pull/7272", "A part of the engine drops the user's options."),
    _case("B58", "vllm-project/vllm-ascend/pull/7528", "The worker's hook resets the block size that the config hook had computed.", "sizes:SetEarly", "config.block-size-chain"),
    _case("B59", "vllm-project/vllm-ascend/pull/7630", "Two hooks set two block sizes.", "sizes:SetTwice", "config.block-size-chain", "zoo_reported:BlockSizesDiffer"),
    _case("B60", "vllm-project/vllm/pull/37467", "The block size changes after a hybrid model was aligned to it.", "sizes:StalePadding", "config.block-size-hybrid"),
    _case("B62", "vllm-project/vllm/issues/13815", "The mapping of device ids takes every identifier for a number.", "variables:IdentifierCrashes", "device.id-errors", "zoo_reported:IdentifierCrashes"),
    _case("B64", "vllm-project/vllm/pull/39452", "A query takes the local id for a physical one.", "variables:UuidUnmapped", "device.id-queries"),
    _case("B65", "vllm-project/vllm/pull/22500", "Ranks of one machine map to one device.", "variables:IgnoresVariable", "device.id-lists"),
    _case("B66", "vllm-project/vllm/pull/33308", "The device variable is read once, at import.", "variables:CountsAtImport", "device.count-follows"),
    _case("B67", "vllm-project/vllm-ascend/issues/322", "The device variable is the placeholder.", "identity:PlaceholderVariable", "identity.device-variable-set"),
    _case("B68", "RBLN-SW/vllm-rbln/pull/1122", "A hook writes a variable that workers on other machines do not get.", "variables:Unlisted", "config.environment-reaches-workers", "zoo_reported:SwitchUnlisted"),
    _case("B70", "vllm-project/vllm-ascend/pull/9935", "A hook replaces a variable that the user set.", "variables:Overwrites", "config.environment-kept", "zoo_reported:SwitchOverwritten"),
    _elsewhere("B71", "vllm-project/vllm/issues/49861", "A documented variable has no effect.", "which variables a platform documents, no program can know"),
    _case("B74", "vllm-project/vllm-ascend/pull/13799", "What the config hook derives stays on the class.", "config:StateOnClass", "config.class-state", "zoo:ClassState"),
    _case("B75", "vllm-project/vllm-omni/pull/4386", "A worker needs a global that only the front end set.", "hooks:WorkerElsewhere", "spawn.worker-agrees"),
    _case("B76", "vllm-project/vllm/issues/8893", "The detector opens the device's runtime.", "chip_opening:Opening", "device.untouched-by-import"),
    _engine("B77", "vllm-project/vllm/issues/32611", "The choice between fork and spawn looks at one library only."),
    _case("B78", "flagos-ai/FlagGems/issues/3523", "The platform's module asks the runtime when it is imported.", "chip_cached.platform:Cached", "device.untouched-by-import"),
    _engine("B79", "vllm-project/vllm/pull/18326", "General plugins are not loaded in every process."),
    _engine("B80", "vllm-project/vllm/pull/27940", "A flag that plugins are loaded survives a fork."),
    _elsewhere("B81", "flagos-ai/vllm-plugin-FL/issues/187", "The kernel hook registers nothing; the kernels come too late.", "which kernels an engine reads when it is imported depends on its build; the contract's engine reads none"),
    _case("B83", "flagos-ai/vllm-plugin-FL/pull/338", "One missing kernel module keeps the others from being imported.", "variables:LibrariesTogether", "kernels.libraries", "zoo_reported:LibrariesTogether"),
    _case("B84", "flagos-ai/vllm-plugin-FL/pull/279", "The platform has a graph wrapper, and says that it captures no graphs.", "pickers:WrapperWithoutFlag", "capabilities.graph-mode-off"),
    _engine("B85", "vllm-project/vllm/pull/23005", "A check of the engine after the hook refuses the hook's choice."),
    _engine("B87", "vllm-project/vllm/pull/18934", "A dtype given as text is compared with dtypes."),
    _engine("B88", "vllm-project/vllm/pull/21302", "A cache dtype is refused without asking the platform."),
    _case("B89", "vllm-project/vllm/pull/57378", "The memory query fails on a device that the driver's library cannot read.", "reported:MemoryUnread", "device.memory", "zoo:MemoryRaises"),
    _case("B90", "vllm-project/vllm/pull/46477", "The runtime's total memory is not the platform's.", "variables:MemoryPooled", "device.memory-agrees"),
    _case("B92", "vllm-project/vllm-omni/pull/5330", "Free memory is zero in a worker whose devices are narrowed.", "variables:MemoryGone", "device.memory-agrees"),
    _case("B93", "vllm-project/vllm-ascend/pull/10711", "Asking for the device's name opens its runtime.", "early:NameByRuntime", "device.untouched-by-questions"),
    _case("B95", "vllm-project/vllm-gaudi/pull/732", "A method of the communicator lacks a parameter of the base's.", "surfaces:CommunicatorGathersOld", "pickers.signatures", "zoo_reported:CommunicatorGathersOld"),
    _engine("B96", "vllm-project/vllm/issues/49061", "A model goes past the communicator."),
    _engine("B98", "vllm-project/vllm/pull/31107", "A group check moves a tensor that the backend cannot move."),
    _case("B99", "ericcurtin/vllm-vulkan/pull/21", "The key for Ray is empty on a device that more than one worker uses.", "flags:NoRayKey", "identity.ray-key"),
    _case("B101", "vllm-project/tpu-inference/pull/2471", "Operations of the LoRA wrapper only raise.", "surfaces:LoraDeclines", "pickers.complete"),
    _elsewhere("B102", "vllm-project/vllm-ascend/pull/11555", "A layer that the platform puts in the place of the engine's takes no adapter.", "the layers that a vendor puts in the place of the engine's are no members of a platform"),
    _engine("B104", "vllm-project/vllm/pull/14328", "The choices of the command line are frozen before plugins run."),
    _engine("B106", "vllm-project/vllm/pull/15061", "The engine reads a part of a capability that is None."),
    _engine("B107", "vllm-project/vllm/pull/15417", "The engine serves listed devices only."),
    _case("B108", "flagos-ai/vllm-plugin-FL/issues/267", "A choice by device has no branch for a plugin's.", "reported:ChoosesByDevice", "pickers.compile-backend"),
    _elsewhere("B109", "flagos-ai/vllm-plugin-FL/pull/338", "A plugin for a known device picks worse than the engine does for it.", "which of two answers of a picker is better, no program can know"),
    _engine("B110", "sgl-project/sglang/pull/37547", "A hook that fails is only logged."),
    _engine("B111", "vllm-project/vllm/pull/23397", "A layer uses streams of CUDA on every device."),
    _case("B112", "vllm-project/vllm/pull/27525", "The vision picker answers with a backend that callers do not take.", "pickers:VisionUnlisted", "pickers.vit-backend"),
    _case("B114", "vllm-project/vllm/pull/27176", "The device type is one that torch does not know.", "identity:TypeUnknownToTorch", "identity.torch-device", "zoo:DeviceTypeBogus"),
    _engine("B115", "sgl-project/sglang/pull/28819", "An error text names a group of entry points that is gone."),
    _case("B116", "vllm-project/vllm/issues/52238", "An optional library fails with an error of the system, and the detector with it.", "chip_brittle:Brittle", "detection.broken-library"),
    _case("B117", "vllm-project/vllm/pull/18979", "An empty device variable is split and read.", "answers:EmptyVariable", "device.ids"),
)  # fmt: skip
"""Every case of the list, in its order."""
