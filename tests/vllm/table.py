"""The table of the zoo on vLLM's base: which check has to name each mutant, and the twin that is right.

A name is `module:Class` below `tests.vllm`; the modules are called `zoo` and `zoo_<family>`.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.row import Mutant
from tests.vllm import rows_activation, rows_config, rows_engine, rows_members, rows_reported

MUTANTS: Final = (
    *rows_activation.ROWS,
    *rows_members.ROWS,
    *rows_config.ROWS,
    *rows_engine.ROWS,
    *rows_reported.ROWS,
    Mutant("zoo:AttentionWithoutHeads", "members.engine-calls", "zoo:AttentionWithoutHeadsTwin"),
    Mutant("zoo:RequestInOldOrder", "members.engine-calls", "zoo:RequestInOldOrderTwin"),
    Mutant("zoo:RequestSwapped", "members.engine-calls", "zoo:RequestInOldOrderTwin"),
    Mutant("zoo:InstanceMethod", "members.kinds", "zoo:AttentionWithoutHeadsTwin"),
    Mutant("zoo:DeviceTypeProperty", "identity.device-type", "zoo:DeviceTypePropertyTwin"),
    Mutant("zoo:DeviceTypeBogus", "identity.torch-device", "zoo:DeviceTypePropertyTwin"),
    Mutant("zoo:KindUnspecified", "platform.specified", "zoo:Good"),
    Mutant("zoo:AttentionEmpty", "pickers.attn-backend.importable", "zoo:AttentionWithoutHeadsTwin"),
    Mutant("zoo:AttentionNone", "pickers.attn-backend.importable", "zoo:AttentionWithoutHeadsTwin"),
    Mutant("zoo:AttentionNoBackend", "pickers.attn-backend.surface", "zoo:AttentionWithoutHeadsTwin"),
    Mutant("zoo:CommunicatorBadName", "pickers.communicator.importable", "zoo:CommunicatorBadNameTwin"),
    Mutant("zoo:LoraRaises", "pickers.lora.importable", "zoo:LoraRaisesTwin"),
    Mutant("zoo:WorkerAuto", "config.worker-cls", "zoo:WorkerTwin"),
    Mutant("zoo:WorkerBadName", "config.worker-cls-importable", "zoo:WorkerTwin"),
    Mutant("zoo:WorkerNoWorker", "config.worker-cls-importable", "zoo:WorkerTwin"),
    Mutant("zoo:WorkerOverwritten", "config.user-values", "zoo:WorkerTwin"),
    Mutant("zoo:BlockSizeOverwritten", "config.user-values", "zoo:BlockSizeTwin"),
    Mutant("zoo:ModelNoneCrash", "config.optional-parts", "zoo:ModelNoneTwin"),
    Mutant("zoo:GrowingValue", "config.check-idempotent", "zoo:GrowingValueTwin"),
    Mutant("zoo:GrowingDefaults", "config.defaults-idempotent", "zoo:GrowingDefaultsTwin"),
    Mutant("zoo:SecondCallRaises", "config.check-idempotent", "zoo:WorkerTwin"),
    Mutant("zoo:ClassState", "config.class-state", "zoo:ClassStateTwin"),
    Mutant("zoo:ConfigWithLock", "config.picklable", "zoo:ClassStateTwin"),
    Mutant("zoo:ConfigWithLambda", "config.picklable", "zoo:ClassStateTwin"),
    Mutant("zoo:NonsenseValue", "config.valid", "zoo:BlockSizeTwin"),
    Mutant("zoo:PreRegisterRaises", "config.pre-register", "zoo:PreRegisterTwin"),
    Mutant("zoo:PreRegisterNeedsParser", "config.pre-register", "zoo:PreRegisterTwin"),
    Mutant("zoo:ImportKernelsRaises", "kernels.imports", "zoo:ImportKernelsTwin"),
    Mutant("zoo:ImportIrKernelsRaises", "kernels.imports", "zoo:ImportKernelsTwin"),
    Mutant("zoo:LogWarningsRaises", "config.startup-hooks", "zoo:Good"),
    Mutant("zoo:CacheSpecsRaise", "config.startup-hooks", "zoo:Good"),
    Mutant("zoo:BlockSizeHookRaises", "config.block-size", "zoo:BlockSizeTwin"),
    Mutant("zoo:ValidateRequestRaises", "config.requests", "zoo:RequestInOldOrderTwin"),
    Mutant("zoo:SeedNotImplemented", "members.common-path", "zoo:SeedTwin"),
    Mutant("zoo:SeedRaises", "device.seed", "zoo:SeedTwin"),
    Mutant("zoo:MemoryRaises", "device.memory", "zoo:Good"),
    Mutant("zoo:NameRaises", "device.facts", "zoo:Good"),
    Mutant("zoo:CrashesInHook", "config.plain", "zoo:WorkerTwin"),
)
"""Every mutant of vLLM's base."""
