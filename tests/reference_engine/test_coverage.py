"""The coverage table: every member of the contract is asked for by the engine, and where to see it.

Each run records what the engine, its worker and its components read of the platform. What a hook asks of its
own platform does not count.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from platform_abc.components.kv_cache import AttentionSpec
from platform_abc.components.quantization import register_quantization_config, unregister_quantization_config
from platform_abc.config import CompilationConfig, CompilationMode, EngineConfig
from platform_abc.device import Device
from platform_abc.hooks.trace import Trace, record
from platform_abc.members import MEMBERS
from platform_abc.requests import SamplingParams
from platform_abc.timeline import Process
from platform_abc.timeline_trace import violations
from platform_abc.types import DeviceCapability
from platforms import device_facts
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from reference_engine.engine_config import create_engine_config
from reference_engine.kv_cache import check_layer_indices
from reference_model import compilation, selector
from tests.reference_engine.components import Rounded
from tests.reference_model.test_lora import save

Use = Callable[..., Any]
Run = Callable[[Use, pytest.MonkeyPatch], set[str]]
COMPONENTS: Final = "tests.reference_engine.components"


@contextlib.contextmanager
def recorded(platform: Any) -> Iterator[set[str]]:
    """Collect what is read of a platform within a `with` block."""
    names: set[str] = set()
    trace = Trace(Process.FRONT_END)
    with record(trace, platform):
        yield names
    names |= {one.name for one in trace.seen}


def engine_run(**args: Any) -> set[str]:
    sys.modules.pop("reference_model.custom_ops", None)
    with Engine(EngineArgs(**{"dtype": "float32", **args}), traced=True) as engine:
        results = engine.generate([[1, 2, 3], [4]], SamplingParams(max_tokens=3))
        assert [one.error for one in results] == ["", ""]
        return {one.name for one in engine.traces()}


def in_process(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """A plain run in one process."""
    use()
    return engine_run()


def _own_worker(_cls: type, config: Any) -> None:
    config.parallel_config.worker_cls = "platforms.components.worker.DeviceWorker"


class NeedsCapability(Rounded):
    """A method that not every device can run."""

    @classmethod
    def get_min_capability(cls) -> int:
        return 70


def everything_on(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """A run with static graphs, adapters, quantization and synced weights."""
    register_quantization_config("rounded")(NeedsCapability)
    platform = use(
        support_static_graph_mode=lambda _cls: True,
        get_static_graph_wrapper_cls=lambda _cls: f"{COMPONENTS}.CountingWrapper",
        get_punica_wrapper=lambda _cls: f"{COMPONENTS}.TorchPunica",
        use_sync_weight_loader=lambda _cls: True,
        supported_quantization=[],
        get_device_capability=lambda _cls, device_id=0: DeviceCapability(9, 0),
        check_and_update_config=_own_worker,
    )
    platform.get_global_graph_pool = lambda: None
    try:
        return engine_run(cudagraph_mode="FULL", enable_lora=True, quantization="rounded")
    finally:
        unregister_quantization_config("rounded")


def configs(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """Configurations that need what this machine has not: much memory, FP8, chosen devices."""
    platform = use(
        get_device_total_memory=lambda _cls, device_id=0: 80 << 30,
        get_device_capability=lambda _cls, device_id=0: DeviceCapability(9, 0),
        supports_fp8=lambda _cls: True,
        check_and_update_config=_own_worker,
    )
    with recorded(platform) as names:
        create_engine_config(
            EngineArgs(kv_cache_dtype="fp8", device_ids=["0"], compilation_mode="VLLM_COMPILE")
        )
    return names


def compiled(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """A step that is compiled with the platform's passes."""
    config = EngineConfig(
        compilation_config=CompilationConfig(mode=CompilationMode.VLLM_COMPILE, backend="eager")
    )
    with recorded(use()) as names:
        compilation.compile_step(lambda x: x, config)
    return names


def devices(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """`python -m reference_engine devices`."""
    with recorded(use()) as names:
        device_facts.facts()
    return names


def other_attention(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """The selectors of vision encoders and of latent attention."""
    with recorded(use(get_mla_prefill_backend_cls=lambda _cls, facts: int)) as names:
        assert selector.get_vit_attn_backend(64, torch.float32)
        assert selector.get_mla_prefill_backend(torch.float32) is int
    return names


def encoder_and_decoder(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """A model in which two layers have one index."""
    spec = AttentionSpec(block_size=16, num_kv_heads=1, head_size=8, dtype="float32")
    with recorded(use(check_runner_kv_caches_multi_layer=lambda _cls: None)) as names:
        check_layer_indices({"layers.0.self": spec, "layers.0.cross": spec})
    return names


def adapters(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """A request with an adapter."""
    pytest.importorskip("safetensors")
    use(get_punica_wrapper=lambda _cls: f"{COMPONENTS}.TorchPunica")
    sys.modules.pop("reference_model.custom_ops", None)
    weights = {"model.layers.0.self_attn.o_proj": (torch.ones(3, 64), torch.ones(64, 3))}
    with tempfile.TemporaryDirectory() as folder:
        module = str(save(Path(folder) / "adapter", weights))
        args = EngineArgs(dtype="float32", enable_lora=True, lora_modules=[module])
        with Engine(args, traced=True) as engine:
            plain, changed = engine.generate([[1, 2]] * 2, SamplingParams(max_tokens=4), lora_ids=[0, 1])
            assert (plain.error, changed.error) == ("", "")
            assert plain.tokens != changed.tokens
            return {one.name for one in engine.traces()}


def hybrid(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """A model with a state-space layer beside attention."""
    use()
    return engine_run(layer_kinds=["attention", "mamba"])


def full_cache(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """Requests that outgrow the cache, with room for them on the host."""
    use()
    sys.modules.pop("reference_model.custom_ops", None)
    args = EngineArgs(dtype="float32", block_size=16, num_gpu_blocks_override=3, num_cpu_blocks=4)
    with Engine(args, traced=True) as engine:
        results = engine.generate([[1] * 10, [2] * 10], SamplingParams(max_tokens=30))
        assert [one.error for one in results] == ["", ""]
        return {one.name for one in engine.traces()}


def ray_start(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """What is asked before actors are made; whole runs on Ray are in test_executors."""
    from reference_engine import ray_executor

    patch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    with recorded(platform := use()) as names:
        ray_executor.check_ray()
        ray_executor.environment_of(platform)
    return names


def two_workers(use: Use, patch: pytest.MonkeyPatch) -> set[str]:
    """Tensor parallel in worker processes; it follows the timeline too."""
    import platforms

    platforms.reset_current_platform()
    # A vocabulary that two cannot share evenly.
    args = EngineArgs(dtype="float32", executor="processes", tensor_parallel_size=2, vocab_size=127)
    with Engine(args, traced=True) as engine:
        assert all(one.tokens for one in engine.generate([[1, 2]], SamplingParams(max_tokens=2)))
        seen = engine.traces()
    assert violations(seen, "worker-processes") == []
    assert {(one.process, one.instance) for one in seen} == {
        (Process.FRONT_END, 0),
        (Process.ENGINE_CORE, 0),
        (Process.WORKER, 0),
        (Process.WORKER, 1),
    }
    return {one.name for one in seen}


READ_IN: Final[Mapping[Run, str]] = {
    in_process: (
        "device_name device_type is_cpu is_out_of_tree is_unspecified uses_host_device_handling "
        "get_cpu_architecture log_warnings get_max_output_tokens pre_register_and_update "
        "apply_config_platform_defaults check_and_update_config update_block_size_for_backend "
        "register_custom_kv_cache_specs verify_model_arch validate_request check_if_supports_dtype "
        "check_max_model_len get_default_ir_op_priority validate_environ get_attn_backend_cls "
        "get_device_communicator_cls opaque_attention_op get_kv_cache_config_builder_cls import_ir_kernels "
        "import_kernels register_triton_kernel_overrides use_sync_weight_loader "
        "set_additional_forward_context device_id_to_physical_device_id "
        "logical_device_id_to_visible_device_id get_device_capability get_device_name get_device_total_memory "
        "inference_mode set_device manual_seed_all use_custom_allreduce support_hybrid_kv_cache"
    ),
    everything_on: (
        "verify_quantization get_punica_wrapper get_static_graph_wrapper_cls make_synced_weight_loader "
        "has_device_capability get_global_graph_pool support_static_graph_mode"
    ),
    configs: (
        "is_tpu get_compile_backend supported_dtypes device_control_id_to_physical_device_id "
        "is_device_capability is_device_capability_family fp8_dtype supports_fp8 is_fp8_fnuz"
    ),
    compiled: "pass_key get_pass_manager_cls",
    devices: (
        "_enum dispatch_key ray_device_key device_control_env_var simple_compile_backend dist_backend "
        "supported_quantization is_cuda is_rocm is_xpu is_zen_cpu is_cuda_alike "
        "get_supported_vit_attn_backends visible_device_id_to_physical_device_id get_device_uuid "
        "get_all_gpu_pci_bus_ids is_pin_memory_available get_current_memory_usage is_integrated_gpu "
        "num_compute_units is_fully_connected get_cuda_runtime_major discover_numa_topology "
        "get_all_device_numa_nodes is_sleep_mode_available is_cumem_allocator_available supports_mx "
        "support_deep_gemm get_nixl_supported_devices get_nixl_memory_type is_arch_support_pdl is_on_gfx9 "
        "__getattr__"
    ),
    other_attention: "get_vit_attn_backend get_mla_prefill_backend_cls",
    encoder_and_decoder: "check_runner_kv_caches_multi_layer",
    adapters: "can_update_inplace",
    hybrid: "enable_multi_stream_overlap",
    full_cache: "insert_blocks_to_device swap_out_blocks_to_host pack_kv_cache",
    ray_start: "ray_noset_device_env_vars additional_env_vars",
    two_workers: "stateless_init_device_torch_dist_pg get_infinity_values use_all_gather use_custom_op_collectives",
}
"""Run -> the members that it reads, each at the first run that does."""

KEPT: Final = "_global_graph_pool"
"""No member that an engine reads: it holds what `get_global_graph_pool` has made."""


def test_the_table_has_every_member_of_the_contract_once() -> None:
    """What a new member's author must add is a run that reads it."""
    listed = [name for names in READ_IN.values() for name in names.split()]
    assert sorted([*listed, KEPT]) == sorted(MEMBERS)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, marks=[pytest.mark.deep] if run is two_workers else [], id=run.__name__)
        for run in READ_IN
    ],
)
def test_a_run_reads_the_members_that_the_table_says(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """It may read more, which stands at an earlier run."""
    assert set(READ_IN[run].split()) - run(use_platform, monkeypatch) == set()


def test_the_pool_of_graphs_is_kept(use_platform: Use) -> None:
    """What no engine reads itself: one pool for all graphs of a process."""
    platform = use_platform()
    platform.graph_pool_handle = lambda: object()
    pool = Device.get_global_graph_pool(platform)
    assert pool is Device.get_global_graph_pool(platform) is platform._global_graph_pool
