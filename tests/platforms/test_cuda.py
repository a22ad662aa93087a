"""Facts of the CUDA platforms, on recorded machines: through NVML, through torch, and the choice."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch._C._distributed_c10d import HashStore, PrefixStore

from platform_abc.config import (
    AttentionSelectorConfig,
    EngineConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    snapshot,
)
from platform_abc.device_ids import assign_physical_devices
from platform_abc.errors import DeviceUnavailable, NotSupported
from platform_abc.qualname import resolve_obj_by_qualname
from platform_abc.types import PlatformEnum
from platforms import cuda_nvml
from platforms.cuda import CudaPlatform, NvmlCudaPlatform, TorchCudaPlatform
from tests.platforms.fakes import nvml as fakes
from tests.platforms.fakes import torch_device

VARIABLE = "CUDA_VISIBLE_DEVICES"
MIB = 1024 * 1024
CLASSES = [CudaPlatform, NvmlCudaPlatform, TorchCudaPlatform]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.setattr(cuda_nvml, "_CAPABILITIES", {})


def with_nvml(monkeypatch: pytest.MonkeyPatch, machine: fakes.FakeNvml) -> fakes.FakeNvml:
    monkeypatch.setitem(sys.modules, "pynvml", machine)
    return machine


@pytest.fixture
def h100s(monkeypatch: pytest.MonkeyPatch) -> fakes.FakeNvml:
    return with_nvml(monkeypatch, fakes.h100_pair())


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)


# --- identity


@pytest.mark.parametrize("cls", CLASSES)
def test_its_identity(cls: type[CudaPlatform]) -> None:
    """The names and keys under which engines, torch and Ray know it."""
    p = cls()
    assert p._enum is PlatformEnum.CUDA
    assert (p.device_name, p.device_type, p.dispatch_key) == ("cuda", "cuda", "CUDA")
    assert (p.ray_device_key, p.dist_backend, p.device_control_env_var) == ("GPU", "nccl", VARIABLE)
    assert p.ray_noset_device_env_vars == ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]
    assert p.is_cuda()
    assert p.is_cuda_alike()
    assert not p.is_rocm()


def test_importing_it_needs_no_device_and_no_torch() -> None:
    """The classes exist on every machine, and importing them loads neither torch nor NVML."""
    code = (
        "import sys; from platforms.cuda import CudaPlatform; CudaPlatform(); "
        "sys.exit(int(bool({'torch', 'pynvml'} & set(sys.modules))))"
    )
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


# --- through NVML


def test_nvml_answers_every_query_without_a_context(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values of two H100, while torch's functions would have noted a context."""
    runtime = torch_device.install(monkeypatch, "cuda", [torch_device.h100()])
    for cls in (CudaPlatform, NvmlCudaPlatform):
        assert cls.get_device_name() == "NVIDIA H100 80GB HBM3"
        assert cls.get_device_uuid(1) == "GPU-8a2d7c10-1b2c-4e6f-8f90-5e4d3c2b1a00"
        assert cls.get_device_total_memory() == 81559 * MIB == 85520809984
        assert cls.get_current_memory_usage("cuda:1") == 2048.0 * MIB
        assert cls.get_device_capability() == (9, 0)
        assert cls.num_compute_units() == 132
        assert cls.get_all_gpu_pci_bus_ids() == {0: "00000000:19:00.0", 1: "00000000:3B:00.0"}
        assert cls.device_count() == 2
        assert cls.is_integrated_gpu() is False
        assert cls.is_fully_connected([0, 1])
        assert cls().supported_dtypes == [torch.bfloat16, torch.float16, torch.float32]
    assert runtime.contexts == []
    assert h100s.open_sessions == 0


def test_every_query_follows_the_device_variable(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With only device 1 visible, id 0 is that device for every query."""
    h100s.devices[1].name = "NVIDIA H200"
    h100s.devices[1].capability = (10, 0)
    monkeypatch.setenv(VARIABLE, "1")
    assert CudaPlatform.get_device_name(0) == "NVIDIA H200"
    assert CudaPlatform.get_device_uuid(0) == h100s.devices[1].uuid
    assert CudaPlatform.get_current_memory_usage() == 2048.0 * MIB
    assert CudaPlatform.get_device_capability(0) == (10, 0)
    assert CudaPlatform.device_count() == 1
    assert CudaPlatform.visible_device_id_to_physical_device_id(0) == 1
    with pytest.raises(IndexError, match=VARIABLE):
        CudaPlatform.get_device_name(1)
    monkeypatch.delenv(VARIABLE)
    assert CudaPlatform.get_device_capability(0) == (9, 0)


@pytest.mark.parametrize(
    ("value", "physical"),
    [
        ("GPU-8a2d7c10-1b2c-4e6f-8f90-5e4d3c2b1a00", [1]),
        ("GPU-8a2d7c10", [1]),
        (" 1 , 0 ", [1, 0]),
        ("1,", [1]),
        ("GPU-8a,GPU-3f", [1, 0]),
    ],
)
def test_identifiers_and_lists_map_to_physical_devices_and_back(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch, value: str, physical: list[int]
) -> None:
    """UUIDs, their beginnings, spaces and a trailing comma; the way back gives the same id."""
    monkeypatch.setenv(VARIABLE, value)
    for visible, expected in enumerate(physical):
        assert CudaPlatform.visible_device_id_to_physical_device_id(visible) == expected
        assert CudaPlatform.get_device_uuid(visible) == h100s.devices[expected].uuid
        assert CudaPlatform.logical_device_id_to_visible_device_id(visible) == visible
    assert CudaPlatform.device_count() == len(physical)


@pytest.mark.parametrize(
    ("value", "error"),
    [("GPU-ffff", ValueError), ("GPU-", ValueError), ("nonsense", ValueError), ("7", ValueError)],
)
def test_an_entry_that_names_no_device_is_an_error_with_the_variable(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch, value: str, error: type[Exception]
) -> None:
    """Unknown, ambiguous or too large: the text has the variable and its value."""
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(error, match=f"{VARIABLE}.*{value}"):
        CudaPlatform.get_device_name(0)


def test_without_the_variable_an_id_out_of_range_is_named(h100s: fakes.FakeNvml) -> None:
    """The text says how many there are."""
    for call in (CudaPlatform.get_device_name, CudaPlatform.get_device_capability):
        with pytest.raises(IndexError, match="device 2 does not exist: this machine has 2"):
            call(2)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("", 2),
        (" ", 2),
        ("-1", 0),
        ("0,-1,1", 1),
        ("1,7,0", 1),
        ("GPU-8a,GPU-ffff", 1),
        ("0,0", 0),
        ("1, 0,", 2),
    ],
)
def test_device_count_reads_the_variable_as_cuda_does(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch, value: str, count: int
) -> None:
    """Empty hides nothing; an entry that names no device hides itself and all that follows."""
    monkeypatch.setenv(VARIABLE, value)
    assert CudaPlatform.device_count() == count


def test_assigned_devices_are_the_logical_ones(h100s: fakes.FakeNvml) -> None:
    """A launcher that assigns physical ids is followed by the logical map, not by visible queries."""
    assign_physical_devices([1])
    try:
        assert CudaPlatform.device_id_to_physical_device_id(0) == 1
        assert CudaPlatform.logical_device_id_to_visible_device_id(0) == 1
    finally:
        assign_physical_devices(None)


# --- through torch


@pytest.mark.parametrize("driver", [None, "no driver"])
def test_without_nvml_torch_answers(monkeypatch: pytest.MonkeyPatch, driver: str | None) -> None:
    """A Jetson Orin: no binding at all, or a library that does not start."""
    monkeypatch.setitem(sys.modules, "pynvml", fakes.no_driver() if driver else None)
    torch_device.install(monkeypatch, "cuda", [torch_device.orin()])
    for cls in (CudaPlatform, TorchCudaPlatform):
        assert cls.get_device_name() == "Orin"
        assert cls.get_device_capability() == (8, 7)
        assert cls.get_device_total_memory() == 62841 * MIB
        assert cls.get_current_memory_usage() == 12841.0 * MIB
        assert cls.num_compute_units() == 16
        assert cls.get_device_uuid() == "GPU-ddccf2d5-1a2b-5c3d-8e4f-001122334455"
        assert cls.is_integrated_gpu()
        assert cls.device_count() == 1
        assert cls.is_fully_connected([0])
        assert not cls.is_fully_connected([0, 1])
        with pytest.raises(IndexError, match="device 1 does not exist"):
            cls.get_device_name(1)
        with pytest.raises(NotSupported, match="nvidia-ml-py"):
            cls.get_all_gpu_pci_bus_ids()


def test_torch_tells_pci_addresses_by_physical_id(no_nvml: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is that of NVML, and the key follows the variable."""
    torch_device.install(monkeypatch, "cuda", [torch_device.h100()])
    monkeypatch.setenv(VARIABLE, "3")
    assert CudaPlatform.get_all_gpu_pci_bus_ids() == {3: "00000000:19:00.0"}


def test_an_identifier_without_nvml_is_a_clear_error(no_nvml: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only NVML can look a UUID up; the text says what to write instead."""
    monkeypatch.setenv(VARIABLE, "GPU-3f5c1f6e")
    with pytest.raises(ValueError, match=rf"{VARIABLE}=GPU-3f5c1f6e: only NVML .* numbers of the devices"):
        CudaPlatform.visible_device_id_to_physical_device_id(0)


# --- without a device

QUERIES: list[Callable[[Any], Any]] = [
    lambda p: p.get_device_name(),
    lambda p: p.get_device_uuid(),
    lambda p: p.get_device_total_memory(),
    lambda p: p.get_current_memory_usage(),
    lambda p: p.get_all_gpu_pci_bus_ids(),
    lambda p: p.num_compute_units(),
    lambda p: p.set_device(torch.device("cuda:0")),
    lambda p: p.get_global_graph_pool(),
    lambda p: p.stateless_init_device_torch_dist_pg("nccl", PrefixStore("x", HashStore()), 0, 1, None),
]


@pytest.mark.parametrize("cls", CLASSES)
def test_without_a_device_each_query_says_what_is_missing(
    no_nvml: None, monkeypatch: pytest.MonkeyPatch, cls: type[CudaPlatform]
) -> None:
    """Device queries raise the contract's error with a remedy; capabilities answer no."""
    torch_device.install(monkeypatch, "cuda", [])
    p = cls()
    for query in QUERIES:
        with pytest.raises(DeviceUnavailable, match="nvidia-smi"):
            query(p)
    assert p.get_device_capability() is None
    assert p.supported_dtypes == [torch.bfloat16, torch.float16, torch.float32]
    assert p.get_all_device_numa_nodes() is None
    assert p.device_count() == 0
    assert not p.supports_fp8()
    assert not p.is_arch_support_pdl()
    assert not p.support_deep_gemm()
    p.log_warnings()


def test_a_torch_for_rocm_is_no_cuda_device(no_nvml: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROCm's torch calls its devices cuda too; they are not this platform's."""
    torch_device.install(monkeypatch, "cuda", [torch_device.mi300x()], hip="6.4")
    with pytest.raises(DeviceUnavailable):
        CudaPlatform.get_device_name()


# --- capabilities and dtypes


@pytest.mark.parametrize(
    ("capability", "fp8", "pdl", "deep_gemm", "dtypes"),
    [
        ((5, 2), False, False, False, ["float32"]),
        ((7, 5), False, False, False, ["float16", "float32"]),
        ((8, 0), False, False, False, ["bfloat16", "float16", "float32"]),
        ((8, 9), True, False, False, ["bfloat16", "float16", "float32"]),
        ((9, 0), True, True, True, ["bfloat16", "float16", "float32"]),
        ((10, 3), True, True, True, ["bfloat16", "float16", "float32"]),
        ((12, 0), True, True, True, ["bfloat16", "float16", "float32"]),
    ],
)
def test_abilities_by_capability(
    h100s: fakes.FakeNvml,
    capability: tuple[int, int],
    fp8: bool,
    pdl: bool,
    deep_gemm: bool,
    dtypes: list[str],
) -> None:
    """What each generation computes in and can do."""
    h100s.devices[0].capability = capability
    p = CudaPlatform()
    assert (p.supports_fp8(), p.is_arch_support_pdl(), p.support_deep_gemm()) == (fp8, pdl, deep_gemm)
    assert [str(dtype) for dtype in p.supported_dtypes] == ["torch." + d for d in dtypes]


def test_bfloat16_on_an_old_device_is_refused_with_the_way_out(h100s: fakes.FakeNvml) -> None:
    """The text has the capability and the flag."""
    CudaPlatform.check_if_supports_dtype(torch.bfloat16)
    h100s.devices[0].capability = (7, 5)
    cuda_nvml._CAPABILITIES.clear()
    with pytest.raises(ValueError, match=r"compute capability 7.5 computes in float16.*--dtype=float16"):
        CudaPlatform.check_if_supports_dtype(torch.bfloat16)


def test_a_capability_is_asked_once(h100s: fakes.FakeNvml) -> None:
    """Layers ask in every step, so NVML is not started each time."""
    assert CudaPlatform.get_device_capability() == (9, 0)
    h100s.broken["nvmlDeviceGetCudaComputeCapability"] = fakes.NVMLError("asked again")
    assert CudaPlatform.get_device_capability() == (9, 0)


# --- config hooks and pickers


def test_the_hook_sets_the_worker_and_keeps_images_whole(caplog: pytest.LogCaptureFixture) -> None:
    """A model that attends within images both ways gets whole images, with a warning; twice is once."""
    config = EngineConfig(
        model_config=ModelConfig(is_mm_prefix_lm=True),
        scheduler_config=SchedulerConfig(is_multimodal_model=True),
    )
    with caplog.at_level(logging.WARNING):
        CudaPlatform.check_and_update_config(config)
        once = snapshot(config)
        CudaPlatform.check_and_update_config(config)
    assert config.scheduler_config.disable_chunked_mm_input is True
    assert isinstance(resolve_obj_by_qualname(config.parallel_config.worker_cls), type)
    assert snapshot(config) == once
    assert caplog.text.count("disable_chunked_mm_input") == 1


@pytest.mark.parametrize(("prefix", "multimodal"), [(True, False), (False, True), (False, False)])
def test_other_models_keep_their_chunks(prefix: bool, multimodal: bool) -> None:
    """Both conditions are needed."""
    config = EngineConfig(
        model_config=ModelConfig(is_mm_prefix_lm=prefix),
        scheduler_config=SchedulerConfig(is_multimodal_model=multimodal),
    )
    CudaPlatform.check_and_update_config(config)
    assert config.scheduler_config.disable_chunked_mm_input is False


def test_values_of_the_user_survive_and_parts_may_be_none() -> None:
    """A worker of the user's stays; without a model part the hook works."""
    config = EngineConfig(parallel_config=ParallelConfig(worker_cls="mine.Worker"))
    CudaPlatform.apply_config_platform_defaults(config)
    CudaPlatform.check_and_update_config(config)
    assert config.parallel_config.worker_cls == "mine.Worker"


def test_the_hooks_ask_no_device(no_nvml: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The front end builds a config without creating a context."""
    runtime = torch_device.install(monkeypatch, "cuda", [torch_device.h100()])
    config = EngineConfig(model_config=ModelConfig(dtype=torch.bfloat16))
    CudaPlatform.pre_register_and_update()
    CudaPlatform.apply_config_platform_defaults(config)
    CudaPlatform.check_and_update_config(config)
    CudaPlatform.get_default_ir_op_priority(config)
    assert runtime.contexts == []


def selector(**fields: Any) -> AttentionSelectorConfig:
    return AttentionSelectorConfig(
        **{"head_size": 128, "dtype": torch.bfloat16, "kv_cache_dtype": "auto", "block_size": None, **fields}
    )


# --- device state


def test_device_and_seed_reach_torch(h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device becomes current, and a tensor is put there so that this thread is bound to it."""
    runtime = torch_device.install(monkeypatch, "cuda", [torch_device.h100(), torch_device.h100()])
    placed: list[Any] = []
    monkeypatch.setattr(torch, "zeros", lambda *_, device: placed.append(device))
    CudaPlatform.set_device(torch.device("cuda:1"))
    CudaPlatform.manual_seed_all(7)
    assert (runtime.current, runtime.seeds, placed) == (1, [7], [torch.device("cuda:1")])
    with pytest.raises(ValueError, match="'cuda', got cpu"):
        CudaPlatform.set_device(torch.device("cpu"))


@pytest.mark.parametrize(("version", "major"), [("12.8", 12), (None, 0), ("13", 13)])
def test_the_runtime_version_is_torchs(
    monkeypatch: pytest.MonkeyPatch, version: str | None, major: int
) -> None:
    """A torch that is not built for CUDA says 0."""
    monkeypatch.setattr(torch.version, "cuda", version)
    assert CudaPlatform.get_cuda_runtime_major() == major
