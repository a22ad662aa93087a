"""The one table of the zoo: which check has to name each mutant, and the twin that is right."""

from __future__ import annotations

from typing import Final

import attrs

GOOD: Final = "good:Good"


@attrs.frozen
class Mutant:
    """A broken platform.

    Args:
        name: `module:Class` below `tests.mutants`, or in the folder `site`.
        check: the id of the check that names the fault.
        twin: the same platform without the fault.
        site: a folder below `tests/mutants/sites` to put on the import path, with the package's metadata.
        twin_site: the same for the twin.
        host: it has to be imported in a process of its own, for what its import does.
    """

    name: str
    check: str
    twin: str = GOOD
    site: str = ""
    twin_site: str = ""
    host: bool = False


MUTANTS: Final = (
    Mutant("breaks_import:NeverThere", "platform.importable", host=True),
    Mutant("identity:Unspecified", "platform.specified"),
    Mutant("identity:Forgetful", "members.mandatory"),
    Mutant("identity:NeedsArgument", "platform.instantiable", "identity:MadeSimply"),
    Mutant("identity:OpensDriver", "platform.instantiable", "identity:MadeSimply"),
    Mutant("identity:EnumAsText", "identity.enum"),
    Mutant("identity:PretendsCuda", "identity.enum-out-of-tree"),
    Mutant("identity:NameIsProperty", "identity.device-name"),
    Mutant("identity:NameIsEmpty", "identity.device-name"),
    Mutant("identity:TypeSetLate", "identity.device-type"),
    Mutant("identity:TypeUnknownToTorch", "identity.torch-device", "identity:HostInputs"),
    Mutant("identity:TwoKinds", "identity.predicates"),
    Mutant("identity:PredicateNone", "identity.predicates"),
    Mutant("identity:BackendNone", "identity.texts", "identity:BackendEmpty"),
    Mutant("identity:UnknownKey", "identity.dispatch-key", "identity:PrivateKey"),
    Mutant("identity:ListIsText", "identity.lists"),
    Mutant("identity:VariableWithValue", "identity.lists", "identity:VariableListed"),
    Mutant("shares_lists:SharesList", "identity.lists-shared", "identity:VariableListed", host=True),
    Mutant("identity:VariableMalformed", "identity.device-variable"),
    Mutant("identity:PlaceholderVariable", "identity.device-variable-set", "identity:OwnVariable"),
    Mutant("fallback:RaisesUnknown", "fallback.unknown-name", "fallback:Delegates"),
    Mutant("fallback:InventsAnswers", "fallback.unknown-name", "fallback:Delegates"),
    Mutant("fallback:SoftDunders", "fallback.dunder", "fallback:Delegates"),
    Mutant("fallback:DropsTorch", "fallback.live", "fallback:Delegates"),
    Mutant("fallback:KeepsCopies", "fallback.live", "fallback:Delegates"),
    Mutant("fallback:HidesError", "fallback.property-errors", "fallback:OwnKey"),
    Mutant("members:InstanceMethod", "members.kinds", "members:StaticInstead"),
    Mutant("members:MethodIsProperty", "members.kinds"),
    Mutant("members:MethodIsNone", "members.kinds"),
    Mutant("members:MethodIsAsync", "members.kinds"),
    Mutant("members:PropertyIsMethod", "members.kinds", "answers:DtypesReal"),
    Mutant("members:OldPicker", "members.engine-calls"),
    Mutant("members:OldRequest", "members.engine-calls", "members:OpenRequest"),
    Mutant("members:SwappedRequest", "members.engine-calls", "members:OpenRequest"),
    Mutant("members:KeywordOnly", "members.base-signature", "members:OneMore"),
    Mutant("members:NoSeed", "members.common-path", "members:NoPciIds"),
    Mutant("config:Crashes", "config.plain"),
    Mutant("config:RefusesPlain", "config.plain"),
    Mutant("config:TableOfSizes", "config.cases", "config:RefusesTwo"),
    Mutant("config:NeedsModel", "config.optional-parts", "config:AsksForModel"),
    Mutant("config:NeedsOptions", "config.optional-parts", "config:StateInConfig"),
    Mutant("config:WorkerAuto", "config.worker-cls"),
    Mutant("config:WorkerMissing", "config.worker-cls-importable"),
    Mutant("config:WorkerUnrelated", "config.worker-cls-importable"),
    Mutant("config:OverwritesWorker", "config.user-values"),
    Mutant("config:OverwritesBlockSize", "config.user-values", "config:KeepsBlockSize"),
    Mutant("config:WritesNonsense", "config.valid"),
    Mutant("config:BlockSizeRaises", "config.block-size", "config:KeepsBlockSize"),
    Mutant("config:NeedsParser", "config.pre-register", "config:UsesParser"),
    Mutant("config:RegistersTwice", "config.pre-register", "config:UsesParser"),
    Mutant("config:RemembersParser", "config.after-parser", "config:UsesParser"),
    Mutant("config:RefusesModels", "config.startup-hooks"),
    Mutant("config:RefusesOwnMethod", "config.startup-hooks", "config:RefusesOthers"),
    Mutant("config:RequestNeedsState", "config.requests"),
    Mutant("config:LimitAsText", "config.requests", "config:LimitAsNumber"),
    Mutant("config:Lambda", "config.picklable", "config:StateInConfig"),
    Mutant("config:Lock", "config.picklable", "config:StateInConfig"),
    Mutant("config:DefaultsGrow", "config.defaults-idempotent", "config:DefaultsOnce"),
    Mutant("config:CheckGrows", "config.check-idempotent"),
    Mutant("config:SecondRaises", "config.check-idempotent"),
    Mutant("config:StateOnClass", "config.class-state", "config:StateInConfig"),
    Mutant("config:EnvironmentGrows", "config.environment-stable", "config:EnvironmentSet"),
    Mutant("config:FirstConfigWins", "config.independent", "config:StateInConfig"),
    Mutant("config:SharedList", "config.independent", "config:OwnList"),
    Mutant("pickers:NoAttention", "pickers.attn-backend.importable"),
    Mutant("pickers:AttentionEmpty", "pickers.attn-backend.importable"),
    Mutant("pickers:AttentionDeclines", "pickers.attn-backend.importable"),
    Mutant("pickers:AttentionUnrelated", "pickers.attn-backend.surface"),
    Mutant("pickers:AttentionHalf", "pickers.attn-backend.surface"),
    Mutant("pickers:NoneForLatent", "pickers.attn-backend.selectors"),
    Mutant("pickers:CommunicatorMissing", "pickers.communicator.importable"),
    Mutant("pickers:CommunicatorUnrelated", "pickers.communicator.surface"),
    Mutant("pickers:LoraMissing", "pickers.lora.importable", "pickers:LoraWhole"),
    Mutant("pickers:LoraIncomplete", "pickers.lora.surface", "pickers:LoraWhole"),
    Mutant("pickers:GraphMissing", "pickers.static-graph.importable", "pickers:GraphWhole"),
    Mutant("pickers:GraphUnrelated", "pickers.static-graph.surface", "pickers:GraphWhole"),
    Mutant("pickers:GraphWithoutWrapper", "capabilities.graph-wrapper", "pickers:GraphWhole"),
    Mutant("pickers:WrapperWithoutFlag", "capabilities.graph-mode-off", "pickers:GraphWhole"),
    Mutant("pickers:PassesAreText", "pickers.pass-manager.importable"),
    Mutant("pickers:PassesUnrelated", "pickers.pass-manager.surface"),
    Mutant("pickers:BuilderMalformed", "pickers.kv-cache-builder.importable"),
    Mutant("pickers:BuilderUnrelated", "pickers.kv-cache-builder.surface"),
    Mutant("pickers:CompileNone", "pickers.compile-backend", "pickers:CompileEager"),
    Mutant("pickers:CompileMissing", "pickers.compile-backend", "pickers:CompileEager"),
    Mutant("pickers:VisionUnlisted", "pickers.vit-backend", "pickers:VisionListed"),
    Mutant("answers:KernelsOnce", "kernels.imports", "answers:KernelsAnyTime"),
    Mutant("answers:KernelsMissing", "kernels.imports", "answers:KernelsAnyTime"),
    Mutant("answers:LoaderSwallows", "kernels.weight-loader", "answers:LoaderPasses"),
    Mutant("answers:LoaderNone", "kernels.weight-loader", "answers:LoaderPasses"),
    Mutant("answers:ContextNone", "kernels.forward-context", "answers:ContextAdds"),
    Mutant("answers:TruthyCapability", "capabilities.answers", "answers:RealCapability"),
    Mutant("answers:NoneCapability", "capabilities.answers", "answers:RealCapability"),
    Mutant("answers:PinNone", "device.answers"),
    Mutant("answers:DtypesAsText", "device.answers", "answers:DtypesReal"),
    Mutant("answers:InfinityWrongKind", "device.answers"),
    Mutant("answers:CapabilityTuple", "device.capability", "answers:CapabilityReal"),
    Mutant("answers:EmptyVariable", "device.ids", "answers:EmptyVariableUnset"),
    Mutant("answers:NameAsBytes", "device.facts"),
    Mutant("answers:MemoryInGib", "device.memory", "answers:MemoryUnknown"),
    Mutant("answers:SeedIgnored", "device.seed"),
    Mutant("answers:DeviceByNumber", "device.set-device"),
    Mutant("processes:HoldsLock", "spawn.instance-pickles", "processes:HoldsText"),
    Mutant("processes:GatherByHook", "spawn.worker-agrees", "moments:GatherByVariable"),
    Mutant(
        "chip_raises:Raises",
        "detection.detector",
        "chip_steady:Steady",
        site="raises",
        twin_site="steady",
    ),
    Mutant(
        "chip_fickle:Fickle",
        "detection.detector",
        "chip_steady:Steady",
        site="fickle",
        twin_site="steady",
    ),
    Mutant(
        "chip_late.platform:Late",
        "detection.resolves",
        "chip_steady:Steady",
        site="late",
        twin_site="steady",
    ),
    Mutant("identity:TypeWithIndex", "identity.torch-device"),
    Mutant("identity:KindOnInstance", "identity.enum"),
    Mutant("identity:BackendOnInstance", "identity.texts", "identity:BackendEmpty"),
    Mutant("identity:KindSwapped", "identity.predicates"),
    Mutant("identity:PredicateFlips", "identity.predicates"),
    Mutant("members:SeedByHelper", "members.common-path", "members:NoPciIds"),
    Mutant("members:NoFirstParameter", "members.engine-calls", "members:OpenRequest"),
    Mutant("pickers:LatentMissing", "pickers.attn-backend.selectors", "pickers:LatentElsewhere"),
    Mutant("pickers:CompileMisspelt", "pickers.compile-backend", "pickers:CompileEager"),
    Mutant("pickers:PickedModuleExits", "pickers.communicator.importable"),
    Mutant("answers:LoaderTwice", "kernels.weight-loader", "answers:LoaderPasses"),
    Mutant("moments:Noted", "config.class-state", "moments:Lazy"),
    Mutant("moments:Boxed", "config.class-state", "moments:Lazy"),
    Mutant("moments:ThirdCall", "config.check-idempotent"),
    Mutant("moments:WorkerBesideLinks", "config.user-values", "moments:WorkerBesideLinksTold"),
    Mutant("moments:DropsOptions", "config.user-values", "config:StateInConfig"),
    Mutant("moments:OptionForgets", "config.picklable", "moments:OptionKeeps"),
    Mutant("moments:OptionOfThisProcess", "spawn.worker-agrees", "moments:OptionKeeps"),
    Mutant("moments:BlockByHook", "spawn.worker-agrees", "config:KeepsBlockSize"),
    Mutant("moments:HiddenCoroutine", "config.plain", "moments:Hidden"),
    Mutant("moments:HiddenGenerator", "kernels.imports", "moments:Hidden"),
    Mutant("moments:KernelsThirdTime", "kernels.imports", "answers:KernelsAnyTime"),
    Mutant("moments:PreRegisterGrows", "config.environment-stable", "config:EnvironmentSet"),
    Mutant("moments:ForgetsState", "spawn.instance-pickles", "processes:HoldsText"),
    Mutant("moments:PickerFlips", "pickers.communicator.importable"),
    Mutant("surroundings:ChangesFolder", "config.process-settings", "surroundings:Tidy"),
    Mutant("surroundings:ChangesDtype", "config.process-settings", "surroundings:Tidy"),
    Mutant("surroundings:LeavesThread", "config.process-settings", "surroundings:Tidy"),
    Mutant("surroundings:KernelsChangeDtype", "kernels.process-settings", "answers:KernelsAnyTime"),
    Mutant("surroundings:PatchesTorch", "config.patches", "surroundings:Tidy"),
    Mutant("surroundings:SilencesLogs", "config.patches", "surroundings:Tidy"),
    Mutant("chip_torn:Torn", "detection.detector", "chip_steady:Steady", site="torn", twin_site="steady"),
    Mutant(
        "chip_nested:Nested", "detection.resolves", "chip_steady:Steady", site="nested", twin_site="steady"
    ),
)
"""Every mutant of the native base."""
