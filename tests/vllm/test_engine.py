"""Facts about level engine beside a real vLLM: it generates, and what only it shows is found there."""

from __future__ import annotations

from typing import Any, Final

import pytest

from conformance.model import Level
from conformance.registry import all_checks
from tests.vllm.table import MUTANTS

SEEDED: Final = {
    "worker_auto": ("zoo:WorkerAuto", "config.worker-cls"),
    "worker_badname": ("zoo:WorkerBadName", "config.worker-cls-importable"),
    "attn_empty": ("zoo:AttentionEmpty", "pickers.attn-backend.importable"),
    "attn_none": ("zoo:AttentionNone", "pickers.attn-backend.importable"),
    "attn_old_signature": ("zoo:AttentionWithoutHeads", "members.engine-calls"),
    "comm_badname": ("zoo:CommunicatorBadName", "pickers.communicator.importable"),
    "punica_raises": ("zoo:LoraRaises", "pickers.lora.importable"),
    "import_kernels_raises": ("zoo:ImportKernelsRaises", "kernels.imports"),
    "import_ir_raises": ("zoo:ImportIrKernelsRaises", "kernels.imports"),
    "mem_raises": ("zoo:MemoryRaises", "device.memory"),
    "name_raises": ("zoo:NameRaises", "device.facts"),
    "seed_raises": ("zoo:SeedRaises", "device.seed"),
    "prereg_raises": ("zoo:PreRegisterRaises", "config.pre-register"),
    "kvspec_raises": ("zoo:CacheSpecsRaise", "config.startup-hooks"),
    "blocksize_raises": ("zoo:BlockSizeHookRaises", "config.block-size"),
    "validate_raises": ("zoo:ValidateRequestRaises", "config.requests"),
    "log_warnings_raises": ("zoo:LogWarningsRaises", "config.startup-hooks"),
    "unspecified_enum": ("zoo:KindUnspecified", "platform.specified"),
    "device_type_bogus": ("zoo:DeviceTypeBogus", "identity.torch-device"),
    "not_classmethod": ("zoo:InstanceMethod", "members.kinds"),
    "device_type_property": ("zoo:DeviceTypeProperty", "identity.device-type"),
    "second_call_raises": ("zoo:SecondCallRaises", "config.check-idempotent"),
    "unpicklable": ("zoo:ConfigWithLock", "config.picklable"),
    "lambda": ("zoo:ConfigWithLambda", "config.picklable"),
    "class_state": ("zoo_engine:ClassStateRead", "config.class-state"),
    "grow": ("zoo:GrowingValue", "config.check-idempotent"),
}
"""Violations that were once seeded into a real vLLM, and the cheap check that finds each of them.

A detector that raises, or that names nothing, needs an installed package: `test_detection` has both.
"""

ONLY_PROCESSES: Final = {
    "second_call_raises": "`check_and_update_config` raised ValueError",
    "unpicklable": "'lock'",
    "lambda": "'scale'",
    "class_state": "`update_block_size_for_backend` raised AttributeError",
    "grow": "scheduler_config.max_num_seqs",
}
"""What only the engine with worker processes shows of them, and words that its failure must have."""


@pytest.mark.parametrize("violation", SEEDED)
def test_every_seeded_violation_has_a_cheap_check(violation: str) -> None:
    """No seeded violation waits for an engine run, which may hang on it or not see it at all."""
    name, check = SEEDED[violation]
    assert (name, check) in {(one.name, one.check) for one in MUTANTS}
    assert all_checks()[check].level < Level.ENGINE


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.parametrize("violation", ONLY_PROCESSES)
def test_the_engine_finds_what_only_it_shows(served: Any, violation: str) -> None:
    """Even without the cheap checks before it, the engine level fails in time and names the hook."""
    answer = served.judge(SEEDED[violation][0], "engine.processes", alone=True)
    assert answer["outcome"] == "fail", answer
    (finding,) = answer["findings"]
    assert ONLY_PROCESSES[violation] in finding["platform_did"]
    assert "tests/vllm/zoo" in finding["location"]


@pytest.mark.vllm
@pytest.mark.slow
def test_the_cpu_platform_generates_on_the_timeline(judge: Any) -> None:
    """vLLM's CPU platform is conformant at level engine, and vLLM itself keeps to the contract's timeline."""
    run = judge("vllm.platforms.cpu:CpuPlatform", "--conformance-level", "engine")
    engine = {one["id"]: one for one in run.report["checks"] if one["level"] == "engine"}
    assert {one["outcome"] for one in engine.values()} == {"pass"}, run.out
    assert run.report["verdict"] == "conformant"
    assert engine["engine.timeline"]["details"].get("timeline", []) == []


@pytest.mark.vllm
@pytest.mark.slow
def test_an_engine_that_refuses_the_kind_says_what_to_override(served: Any) -> None:
    """The engine's refusal comes with the way out, which its own text does not say."""
    answer = served.judge("zoo_engine:KindOutOfTree", "engine.in-process", alone=True)
    (finding,) = answer["findings"]
    assert "Sleep mode allocator is not available" in finding["platform_did"]
    assert "_maybe_get_memory_pool_context" in finding["hint"]
