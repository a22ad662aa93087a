"""Facts of `platforms.cpu`: what every member answers, with the values of recorded machines."""

from __future__ import annotations

import os
import pickle
import platform as host
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from platform_abc.config import (
    AttentionBackendEnum,
    AttentionSelectorConfig,
    EngineConfig,
    ModelConfig,
)
from platform_abc.errors import ConfigError, DeviceUnavailable, NotSupported
from platform_abc.members import MEMBERS
from platform_abc.qualname import resolve_obj_by_qualname
from platform_abc.types import CpuArchEnum, PlatformEnum
from platforms import common, cpu, host_memory, host_processor
from platforms.cpu import CpuPlatform

pytestmark = pytest.mark.torch
GIB = 1024**3
VARIABLE = CpuPlatform.device_control_env_var


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two NUMA nodes of two cores with two threads each, 64 GiB, limited to 8 GiB by a group."""
    files = {
        "proc/meminfo": f"MemTotal: {64 * GIB // 1024} kB\nMemAvailable: {40 * GIB // 1024} kB\n",
        "proc/cpuinfo": "processor : 0\nmodel name : AMD EPYC 9654 96-Core Processor\n",
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.max": str(8 * GIB),
        "sys/fs/cgroup/job/memory.current": str(3 * GIB),
        "sys/fs/cgroup/job/memory.stat": f"inactive_file {GIB}\n",
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    }
    for node in (0, 1):
        path = f"sys/devices/system/node/node{node}"
        files[f"{path}/cpulist"] = f"{2 * node}-{2 * node + 1},{2 * node + 4}-{2 * node + 5}\n"
        files[f"{path}/meminfo"] = (
            f"Node {node} MemTotal: {(2 + 3 * node) * GIB // 1024} kB\nNode {node} MemFree: {GIB // 1024} kB\n"
        )
    for number in range(8):
        files[f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"] = (
            f"{number % 4},{number % 4 + 4}\n"
        )
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for module, names in (
        (host_memory, ("host_memory", "node_memory")),
        (
            host_processor,
            ("machine_id", "numa_nodes", "one_cpu_per_core", "processor_name"),
        ),
    ):
        for name in names:
            real = getattr(module, name)
            monkeypatch.setattr(cpu, name, lambda *args, _real=real, **kw: _real(*args, root=tmp_path, **kw))
    return tmp_path


# --- identity


def test_its_identity() -> None:
    """The names and keys under which engines, torch and Ray know it."""
    p = CpuPlatform()
    assert p._enum is PlatformEnum.CPU
    assert (p.device_name, p.device_type, p.dispatch_key) == ("cpu", "cpu", "CPU")
    assert (p.ray_device_key, p.dist_backend) == ("CPU", "gloo")
    assert p.device_control_env_var == "CPU_VISIBLE_MEMORY_NODES"
    assert (p.ray_noset_device_env_vars, p.supported_quantization, p.additional_env_vars) == (
        [],
        ["int8_weight_only"],
        [],
    )
    assert p.is_cpu()
    assert not (p.is_cuda())
    assert not (p.is_cuda_alike())
    assert not (p.is_zen_cpu())
    assert not (p.is_out_of_tree())


def test_importing_it_imports_no_torch() -> None:
    """The module, the class and its cheap predicates load neither torch nor a config."""
    code = (
        "import sys; from platforms.cpu import CpuPlatform as P; p = P(); assert p.is_cpu(); "
        "p.get_device_name(); p.get_device_total_memory(); "
        "sys.exit(int('torch' in sys.modules or 'platform_abc.config' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_instance_pickles() -> None:
    """An engine may send it to a worker."""
    assert isinstance(pickle.loads(pickle.dumps(CpuPlatform())), CpuPlatform)


# --- every member


def test_every_member_answers_or_is_declared_not_supported() -> None:
    """No member of the contract is left to chance: these are the ones that say no."""
    p = CpuPlatform()
    calls: dict[str, tuple[Any, ...]] = {
        "device_control_id_to_physical_device_id": ("0",),
        "is_device_capability_family": (80,),
        "has_device_capability": (80,),
        "is_device_capability": (80,),
        "enable_multi_stream_overlap": (None, None),
        "get_max_output_tokens": (3,),
        "check_max_model_len": (7,),
        "verify_model_arch": ("LlamaForCausalLM",),
        "verify_quantization": ("int8_weight_only",),
        "validate_environ": (False,),
        "validate_request": (None, None),
        "is_fully_connected": ([0],),
        "manual_seed_all": (0,),
    }
    import torch

    for name in ("device_id_to_physical_device_id", "logical_device_id_to_visible_device_id"):
        calls[name] = (0,)
    calls["visible_device_id_to_physical_device_id"] = (0,)
    for name in ("get_infinity_values", "check_if_supports_dtype"):
        calls[name] = (torch.float32,)
    calls["set_device"] = (torch.device("cpu"),)
    calls["get_vit_attn_backend"] = (64, torch.float32)
    calls["make_synced_weight_loader"] = (print,)
    calls["get_mla_prefill_backend_cls"] = (None,)
    for name in (
        "apply_config_platform_defaults",
        "check_and_update_config",
        "get_default_ir_op_priority",
        "get_kv_cache_config_builder_cls",
        "register_custom_kv_cache_specs",
        "update_block_size_for_backend",
    ):
        calls[name] = (EngineConfig(),)
    elsewhere = {
        "get_attn_backend_cls",
        "stateless_init_device_torch_dist_pg",
        "set_additional_forward_context",
        "insert_blocks_to_device",
        "swap_out_blocks_to_host",
        "pack_kv_cache",
    }
    declined = set()
    for name, spec in MEMBERS.items():
        if name in elsewhere or name.startswith("__"):
            continue
        try:
            value = getattr(p, name)
            if spec.kind in {"method", "classmethod", "staticmethod"}:
                value(*calls.get(name, ()))
        except NotSupported as error:
            assert error.remedy
            declined.add(name)
    assert declined == {
        "get_all_gpu_pci_bus_ids",
        "get_mla_prefill_backend_cls",
    } | ({"get_device_uuid"} if host_processor.machine_id() is None else set())


def test_capabilities() -> None:
    """What the CPU can and cannot do."""
    p = CpuPlatform()
    assert p.support_hybrid_kv_cache()
    assert p.opaque_attention_op()
    assert p.can_update_inplace()
    assert p.use_all_gather()
    assert p.support_static_graph_mode()
    assert p.get_global_graph_pool() is p.get_global_graph_pool()
    assert not (p.supports_fp8())
    assert not (p.supports_mx())
    assert not (p.is_fp8_fnuz())
    assert not (p.use_custom_allreduce())
    assert not (p.use_custom_op_collectives())
    assert not (p.support_deep_gemm())
    assert not (p.is_sleep_mode_available())
    assert not (p.is_pin_memory_available())
    assert not (p.is_integrated_gpu())
    assert p.get_device_capability() is None
    assert not p.has_device_capability(0)


# --- dtypes


@pytest.mark.parametrize(
    ("machine_name", "architecture", "dtypes"),
    [
        ("x86_64", CpuArchEnum.X86, ["bfloat16", "float16", "float32"]),
        ("AMD64", CpuArchEnum.X86, ["bfloat16", "float16", "float32"]),
        ("aarch64", CpuArchEnum.ARM, ["bfloat16", "float16", "float32"]),
        ("ppc64le", CpuArchEnum.POWERPC, ["bfloat16", "float32", "float16"]),
        ("s390x", CpuArchEnum.S390X, ["bfloat16", "float32"]),
        ("riscv64", CpuArchEnum.RISCV, ["bfloat16", "float16", "float32"]),
        ("loongarch64", CpuArchEnum.OTHER, ["float32"]),
        ("", CpuArchEnum.UNKNOWN, ["float32"]),
    ],
)
def test_dtypes_by_architecture(
    monkeypatch: pytest.MonkeyPatch, machine_name: str, architecture: CpuArchEnum, dtypes: list[str]
) -> None:
    """The first of the list is what an unsupported model dtype falls back to."""
    monkeypatch.setattr(host, "machine", lambda: machine_name)
    monkeypatch.setattr(common, "on_macos", lambda: False)
    assert CpuPlatform.get_cpu_architecture() is architecture
    assert [str(dtype) for dtype in CpuPlatform().supported_dtypes] == ["torch." + d for d in dtypes]


@pytest.mark.parametrize(("has_it", "first"), [(True, "torch.bfloat16"), (False, "torch.float16")])
def test_a_mac_has_bfloat16_by_its_own_word(
    monkeypatch: pytest.MonkeyPatch, has_it: bool, first: str
) -> None:
    """The first generation of Apple's processors has none."""
    monkeypatch.setattr(host, "machine", lambda: "arm64")
    monkeypatch.setattr(common, "on_macos", lambda: True)
    monkeypatch.setattr(cpu, "macos_has_bfloat16", lambda: has_it)
    assert str(CpuPlatform().supported_dtypes[0]) == first


def test_an_unsupported_dtype_is_refused_with_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the dtypes that work and the flag."""
    import torch

    monkeypatch.setattr(host, "machine", lambda: "s390x")
    CpuPlatform.check_if_supports_dtype(torch.bfloat16)
    with pytest.raises(ValueError, match=r"float16: cpu computes in bfloat16, float32; .*--dtype=bfloat16"):
        CpuPlatform.check_if_supports_dtype(torch.float16)
    with pytest.raises(ConfigError, match=r"model_config.dtype = float16"):
        CpuPlatform.check_and_update_config(EngineConfig(model_config=ModelConfig(dtype=torch.float16)))


# --- memory, processors, nodes


def test_memory_is_the_groups_where_that_is_smaller(machine: Path) -> None:
    """Total is the limit; used is what the group holds and could not give back."""
    assert CpuPlatform.get_device_total_memory() == 8 * GIB
    assert CpuPlatform.get_current_memory_usage() == 2.0 * GIB
    assert CpuPlatform.mem_get_info() == (6 * GIB, 8 * GIB)
    (machine / "sys/fs/cgroup/job/memory.max").write_text("max")
    assert CpuPlatform.get_device_total_memory() == 64 * GIB
    assert CpuPlatform.get_current_memory_usage() == 24.0 * GIB


def test_memory_of_this_machine_is_sane() -> None:
    """Used is between zero and total, and the answers are of the promised types."""
    total, used = CpuPlatform.get_device_total_memory(), CpuPlatform.get_current_memory_usage()
    assert type(total) is int
    assert type(used) is float
    assert 0 < used < total
    free, seen = CpuPlatform.mem_get_info()
    assert 0 < free <= seen == total


def test_all_ranks_share_the_host_while_no_node_is_listed(machine: Path) -> None:
    """Without the variable, any id stands for the whole host."""
    assert CpuPlatform.get_device_total_memory(3) == 8 * GIB
    assert CpuPlatform.device_count() == 1
    with pytest.raises(IndexError, match="-1"):
        CpuPlatform.get_device_total_memory(-1)


def test_a_listed_node_is_a_device_of_its_own(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every per-device query answers for the node that the variable puts at the id."""
    monkeypatch.setenv(VARIABLE, "1, 0")
    assert CpuPlatform.device_count() == 2
    assert [CpuPlatform.get_device_total_memory(i) for i in (0, 1)] == [5 * GIB, 2 * GIB]
    assert CpuPlatform.get_current_memory_usage("cpu:1") == 1.0 * GIB
    assert CpuPlatform.get_all_device_numa_nodes() == [1, 0]
    assert CpuPlatform.get_device_uuid(0) != CpuPlatform.get_device_uuid(1)
    with pytest.raises(IndexError, match=VARIABLE):
        CpuPlatform.get_device_total_memory(2)


@pytest.mark.parametrize("query", ["get_device_name", "get_device_uuid", "get_device_total_memory"])
def test_a_node_that_does_not_exist_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """The error shows the variable with its value and the nodes that there are."""
    monkeypatch.setenv(VARIABLE, "7")
    with pytest.raises(DeviceUnavailable, match=rf"{VARIABLE}=7 list nodes of this machine: 0, 1"):
        getattr(CpuPlatform, query)(0)


@pytest.mark.parametrize("value", ["", "   "])
def test_an_empty_variable_hides_nothing(machine: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Launchers set it to the empty string on nodes without accelerators."""
    monkeypatch.setenv(VARIABLE, value)
    assert CpuPlatform.get_device_total_memory() == 8 * GIB
    assert CpuPlatform.device_id_to_physical_device_id(0) == 0


def test_without_an_answer_of_the_system_the_device_is_unavailable(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox that hides /proc gets an error with the files it has to show."""
    (machine / "proc/meminfo").unlink()
    for call in (CpuPlatform.get_device_total_memory, CpuPlatform.get_current_memory_usage):
        with pytest.raises(DeviceUnavailable, match="/proc/meminfo"):
            call()


def test_the_name_and_the_identifier(machine: Path) -> None:
    """The name is the processor's; the identifier is stable and does not show the machine's own."""
    assert CpuPlatform.get_device_name() == "AMD EPYC 9654 96-Core Processor"
    first = CpuPlatform.get_device_uuid()
    assert first == CpuPlatform.get_device_uuid()
    assert first.startswith("CPU-")
    assert "0123456789abcdef" not in first.replace("-", "")
    (machine / "etc/machine-id").unlink()
    with pytest.raises(NotSupported, match="machine-id"):
        CpuPlatform.get_device_uuid()


@pytest.mark.parametrize(
    ("machine_name", "expected"), [("x86_64", [[4, 5], [6, 7]]), ("aarch64", [[0, 1], [2, 3]])]
)
def test_numa_topology_has_one_thread_a_core(
    machine: Path, monkeypatch: pytest.MonkeyPatch, machine_name: str, expected: list[list[int]]
) -> None:
    """By node; on x86 the highest thread of each core, elsewhere the lowest."""
    monkeypatch.setattr(host, "machine", lambda: machine_name)
    assert CpuPlatform.discover_numa_topology() == expected
    for node in (0, 1):
        (machine / f"sys/devices/system/node/node{node}/cpulist").unlink()
    assert CpuPlatform.discover_numa_topology() == []


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity mask")
def test_compute_units_follow_the_affinity_mask() -> None:
    """They are the logical processors that this process may use, not torch's threads."""
    import torch

    before = os.sched_getaffinity(0)
    assert CpuPlatform.num_compute_units() == len(before)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert CpuPlatform.num_compute_units() == len(before)
        os.sched_setaffinity(0, {min(before)})
        assert CpuPlatform.num_compute_units() == 1
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


# --- device state


def test_a_seed_repeats_the_draws() -> None:
    """Torch's generator of the CPU is seeded, and Python's is not touched."""
    import torch

    state = random.getstate()
    CpuPlatform.manual_seed_all(17)
    first = torch.rand(3)
    CpuPlatform.manual_seed_all(17)
    assert torch.equal(first, torch.rand(3))
    assert random.getstate() == state


def test_inference_mode_records_no_gradient() -> None:
    """Inside the context, results need no gradient."""
    import torch

    weight = torch.ones(2, requires_grad=True)
    with CpuPlatform.inference_mode():
        assert not (weight * 2).requires_grad
    assert (weight * 2).requires_grad


def test_only_the_cpu_can_be_the_current_device() -> None:
    """Another type of device is refused by name."""
    import torch

    CpuPlatform.set_device(torch.device("cpu"))
    with pytest.raises(ValueError, match="'cpu', got meta"):
        CpuPlatform.set_device(torch.device("meta"))


# --- pickers


def selector(**fields: Any) -> AttentionSelectorConfig:
    import torch

    return AttentionSelectorConfig(
        **{"head_size": 32, "dtype": torch.float32, "kv_cache_dtype": "auto", "block_size": 16, **fields}
    )


@pytest.mark.parametrize("asked", [None, AttentionBackendEnum.TORCH_SDPA])
def test_a_plain_layer_gets_an_importable_backend(asked: AttentionBackendEnum | None) -> None:
    """Asked as the engine asks, with keywords."""
    name = CpuPlatform.get_attn_backend_cls(asked, attn_selector_config=selector(), num_heads=4)
    assert resolve_obj_by_qualname(name).get_name() == "TORCH_SDPA"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "asked",
    [backend for backend in AttentionBackendEnum if backend.name != "TORCH_SDPA"],
    ids=lambda b: b.name,
)
def test_a_backend_that_the_cpu_lacks_is_never_replaced(asked: AttentionBackendEnum) -> None:
    """An explicit wish is refused with the valid names, in the picker and in the config hook."""
    with pytest.raises(ValueError, match=rf"{asked.name} is not valid on cpu; valid are: TORCH_SDPA"):
        CpuPlatform.get_attn_backend_cls(asked, attn_selector_config=selector())
    config = EngineConfig()
    config.attention_config.backend = asked
    with pytest.raises(ConfigError, match=rf"attention_config.backend: attention backend {asked.name}"):
        CpuPlatform.check_and_update_config(config)


@pytest.mark.parametrize("fields", [{"use_mla": True}, {"use_sparse": True}, {"kv_cache_dtype": "fp8"}])
def test_a_layer_that_no_backend_serves_is_a_value_error(fields: dict[str, Any]) -> None:
    """The attention picker refuses with a reason; it neither answers wrongly nor says "not supported"."""
    with pytest.raises(ValueError, match="TORCH_SDPA on cpu cannot do"):
        CpuPlatform.get_attn_backend_cls(None, attn_selector_config=selector(**fields))


def test_picked_classes_exist() -> None:
    """Each dotted name that is answered leads to a class."""
    config = EngineConfig()
    for name in (
        CpuPlatform.get_device_communicator_cls(),
        CpuPlatform.get_kv_cache_config_builder_cls(config),
        CpuPlatform.get_pass_manager_cls(),
        common.WORKER,
    ):
        assert isinstance(resolve_obj_by_qualname(name), type)
