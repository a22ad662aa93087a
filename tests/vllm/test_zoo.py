"""Every seeded fault on vLLM's base is named by the right check, and its correct twin is not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.vllm

MUTANTS = [
    ("AttentionWithoutHeads", "members.engine-calls", "AttentionWithoutHeadsTwin"),
    ("RequestInOldOrder", "members.engine-calls", "RequestInOldOrderTwin"),
    ("RequestSwapped", "members.engine-calls", "RequestInOldOrderTwin"),
    ("InstanceMethod", "members.kinds", "AttentionWithoutHeadsTwin"),
    ("DeviceTypeProperty", "identity.device-type", "DeviceTypePropertyTwin"),
    ("DeviceTypeBogus", "identity.torch-device", "DeviceTypePropertyTwin"),
    ("KindUnspecified", "platform.specified", "Good"),
    ("AttentionEmpty", "pickers.attn-backend.importable", "AttentionWithoutHeadsTwin"),
    ("AttentionNone", "pickers.attn-backend.importable", "AttentionWithoutHeadsTwin"),
    ("AttentionNoBackend", "pickers.attn-backend.surface", "AttentionWithoutHeadsTwin"),
    ("CommunicatorBadName", "pickers.communicator.importable", "CommunicatorBadNameTwin"),
    ("LoraRaises", "pickers.lora.importable", "LoraRaisesTwin"),
    ("WorkerAuto", "config.worker-cls", "WorkerTwin"),
    ("WorkerBadName", "config.worker-cls-importable", "WorkerTwin"),
    ("WorkerNoWorker", "config.worker-cls-importable", "WorkerTwin"),
    ("WorkerOverwritten", "config.user-values", "WorkerTwin"),
    ("BlockSizeOverwritten", "config.user-values", "BlockSizeTwin"),
    ("ModelNoneCrash", "config.optional-parts", "ModelNoneTwin"),
    ("GrowingValue", "config.check-idempotent", "GrowingValueTwin"),
    ("GrowingDefaults", "config.defaults-idempotent", "GrowingDefaultsTwin"),
    ("SecondCallRaises", "config.check-idempotent", "WorkerTwin"),
    ("ClassState", "config.class-state", "ClassStateTwin"),
    ("ConfigWithLock", "config.picklable", "ClassStateTwin"),
    ("ConfigWithLambda", "config.picklable", "ClassStateTwin"),
    ("NonsenseValue", "config.valid", "BlockSizeTwin"),
    ("PreRegisterRaises", "config.pre-register", "PreRegisterTwin"),
    ("PreRegisterNeedsParser", "config.pre-register", "PreRegisterTwin"),
    ("ImportKernelsRaises", "kernels.imports", "ImportKernelsTwin"),
    ("ImportIrKernelsRaises", "kernels.imports", "ImportKernelsTwin"),
    ("LogWarningsRaises", "config.startup-hooks", "Good"),
    ("CacheSpecsRaise", "config.startup-hooks", "Good"),
    ("BlockSizeHookRaises", "config.block-size", "BlockSizeTwin"),
    ("ValidateRequestRaises", "config.requests", "RequestInOldOrderTwin"),
    ("SeedNotImplemented", "members.common-path", "SeedTwin"),
    ("SeedRaises", "device.seed", "SeedTwin"),
    ("MemoryRaises", "device.memory", "Good"),
    ("NameRaises", "device.facts", "Good"),
    ("CrashesInHook", "config.plain", "WorkerTwin"),
]


@pytest.mark.parametrize(("mutant", "check"), [one[:2] for one in MUTANTS], ids=[one[0] for one in MUTANTS])
def test_the_fault_is_named(served, mutant, check):
    """The check that the table names fails on the mutant, with every part of its finding filled."""
    answer = served.judge(mutant, check)
    assert answer["outcome"] == "fail", answer
    for finding in answer["findings"]:
        assert all(str(part).strip() for part in finding.values()), finding


@pytest.mark.parametrize(
    ("twin", "check"), sorted({(twin, check) for _, check, twin in MUTANTS}), ids=lambda value: value
)
def test_the_twin_passes(served, twin, check):
    """The same check is quiet on a platform that does the same thing right."""
    answer = served.judge(twin, check)
    assert answer["outcome"] in ("pass", "unsupported"), answer


def test_a_hook_that_never_returns_is_a_failure_in_time(served):
    """A hang ends at the time limit, and is the platform's fault."""
    answer = served.judge("HangsInHook", "config.plain", limit=5.0)
    assert answer["outcome"] == "fail", answer
    assert "5 s" in answer["findings"][0]["platform_did"]


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "check"), [one[:2] for one in MUTANTS], ids=[one[0] for one in MUTANTS])
def test_nothing_else_is_named(served, mutant, check):
    """One cause is one failure: no other `must` of the cheap ones fails on the mutant."""
    from conformance.registry import all_checks

    others = [one.id for one in all_checks().values() if one.severity == "must" and one.where == "fork"]
    failed = [name for name in others if served.judge(mutant, name)["outcome"] in ("fail", "error")]
    assert failed == [check]


def test_every_class_of_the_zoo_is_in_the_table():
    """No broken platform is written and then forgotten."""
    tree = ast.parse(Path(__file__).with_name("zoo.py").read_text())
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    used = {name for mutant, _, twin in MUTANTS for name in (mutant, twin)} | {"HangsInHook"}
    assert classes == used
