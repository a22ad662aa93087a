"""Facts of the ROCm platform, on recorded machines: through amdsmi, and through a HIP torch."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys

import pytest

pytest.importorskip("torch")
import torch
from torch._C._distributed_c10d import HashStore, PrefixStore

from platform_abc.config import (
    CompilationConfig,
    EngineConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    snapshot,
)
from platform_abc.device_ids import assign_physical_devices
from platform_abc.errors import DeviceUnavailable
from platform_abc.types import PlatformEnum
from platforms import amd_smi, rocm
from platforms.rocm import RocmPlatform
from tests.platforms.fakes import amd_smi as fakes
from tests.platforms.fakes import torch_device

MIB = 1024 * 1024
VARIABLES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(rocm, "_ARCHS", {})


def with_amdsmi(monkeypatch: pytest.MonkeyPatch, machine: fakes.FakeAmdSmi) -> fakes.FakeAmdSmi:
    monkeypatch.setitem(sys.modules, "amdsmi", machine)
    return machine


@pytest.fixture
def mi300x(monkeypatch: pytest.MonkeyPatch) -> fakes.FakeAmdSmi:
    return with_amdsmi(monkeypatch, fakes.mi300x_pair())


@pytest.fixture
def no_amdsmi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)


def test_its_identity() -> None:
    """Torch and Ray know it by CUDA's names; the predicates tell it apart."""
    p = RocmPlatform()
    assert p._enum is PlatformEnum.ROCM
    assert (p.device_name, p.device_type, p.dispatch_key) == ("rocm", "cuda", "CUDA")
    assert (p.ray_device_key, p.dist_backend) == ("GPU", "nccl")
    assert len(p.ray_noset_device_env_vars) == 3
    assert p.is_rocm()
    assert p.is_cuda_alike()
    assert not p.is_cuda()


def test_importing_it_needs_no_device_and_no_torch() -> None:
    """The class exists on every machine."""
    code = (
        "import os, sys; before = dict(os.environ); from platforms.rocm import RocmPlatform; RocmPlatform(); "
        "sys.exit(int(bool({'torch', 'amdsmi'} & set(sys.modules)) or dict(os.environ) != before))"
    )
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


def test_amdsmi_answers_every_query_without_a_context(
    mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values of two MI300X, while torch's functions would have noted a context."""
    runtime = torch_device.install(monkeypatch, "cuda", [torch_device.mi300x()], hip="6.4")
    p = RocmPlatform
    assert p.get_device_name() == "AMD Instinct MI300X"
    assert p.get_device_uuid(1) == "b4ff74a1-0000-1000-8045-7a8b9c0d1e2f"
    assert p.get_device_total_memory() == 196592 * MIB == 206141652992
    assert p.get_current_memory_usage() == 300.0 * MIB
    assert p.get_device_capability() == (9, 4)
    assert p.num_compute_units() == 304
    assert p.get_all_gpu_pci_bus_ids() == {0: "0000:05:00.0", 1: "0000:26:00.0"}
    assert p.get_all_device_numa_nodes() == [0, 1]
    assert p.device_count() == 2
    assert p.is_fully_connected([0, 1])
    assert runtime.contexts == []
    assert mi300x.open_sessions == 0


def test_abilities_of_an_mi300x(mi300x: fakes.FakeAmdSmi) -> None:
    """Its FP8 is the FNUZ kind; it has no MX types."""
    p = RocmPlatform
    assert (p.supports_fp8(), p.is_fp8_fnuz(), p.supports_mx(), p.is_on_gfx9()) == (True, True, False, True)
    assert p.fp8_dtype() is torch.float8_e4m3fnuz


@pytest.mark.parametrize(
    ("arch", "capability", "fp8", "fnuz", "mx", "gfx9"),
    [
        ("gfx90a", (9, 0), False, False, False, True),
        ("gfx9010", (9, 0), False, False, False, True),
        ("gfx942:sramecc+:xnack-", (9, 4), True, True, False, True),
        ("gfx950", (9, 5), True, False, True, True),
        ("gfx1100", (11, 0), False, False, False, False),
        ("gfx1201", (12, 0), True, False, False, False),
        ("gfx1250", (12, 5), True, False, True, False),
    ],
)
def test_abilities_by_architecture(
    mi300x: fakes.FakeAmdSmi,
    arch: str,
    capability: tuple[int, int],
    fp8: bool,
    fnuz: bool,
    mx: bool,
    gfx9: bool,
) -> None:
    """The capability is in the name, hexadecimal stepping and older spellings included."""
    mi300x.devices[0].target_graphics_version = arch
    p = RocmPlatform
    assert p.get_device_capability() == capability
    assert (p.supports_fp8(), p.is_fp8_fnuz(), p.supports_mx(), p.is_on_gfx9()) == (fp8, fnuz, mx, gfx9)
    assert (p.fp8_dtype() is torch.float8_e4m3fnuz) == fnuz


@pytest.mark.parametrize("name", ["", "gfx", "gfxyz", "N/A", "sm_90"])
def test_a_name_that_is_no_architecture_has_no_capability(name: str) -> None:
    """An unknown spelling is no number rather than a wrong one."""
    assert amd_smi.capability_of(name) is None


def test_a_desktop_board_gets_its_name_from_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver knows no marketing name, and no NUMA node."""
    with_amdsmi(monkeypatch, fakes.rx7900xtx())
    assert RocmPlatform.get_device_name() == "AMD Radeon RX 7900 XTX"
    assert RocmPlatform.get_all_device_numa_nodes() is None
    assert RocmPlatform.get_device_capability() == (11, 0)


# --- ids


@pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
def test_every_query_follows_each_variable(
    mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With only device 1 visible, id 0 is that device, whichever variable hides the other."""
    mi300x.devices[1].device_id = "0x74a5"
    mi300x.devices[1].memory = 262000 * MIB
    mi300x.devices[1].target_graphics_version = "gfx950"
    monkeypatch.setenv(name, "1")
    p = RocmPlatform
    assert p.get_device_name() == "AMD Instinct MI325X"
    assert p.get_device_uuid() == mi300x.devices[1].uuid
    assert p.get_device_total_memory() == 262000 * MIB
    assert p.get_device_capability() == (9, 5)
    assert p.get_all_device_numa_nodes() == [1]
    assert p.device_count() == 1
    assert p.visible_device_id_to_physical_device_id(0) == p.device_id_to_physical_device_id(0) == 1
    assert p.logical_device_id_to_visible_device_id(0) == 0
    with pytest.raises(IndexError, match=name):
        p.get_device_name(1)


def test_hip_numbers_what_rocr_has_left(mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two lists are applied one after the other, and the way back undoes both."""
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1,0")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert RocmPlatform.visible_device_id_to_physical_device_id(0) == 0
    assert RocmPlatform.get_device_uuid(0) == mi300x.devices[0].uuid
    assign_physical_devices([0])
    try:
        assert RocmPlatform.logical_device_id_to_visible_device_id(0) == 0
        assert RocmPlatform.device_id_to_physical_device_id(0) == 0
        assign_physical_devices([1])
        with pytest.raises(ValueError, match="HIP_VISIBLE_DEVICES"):
            RocmPlatform.logical_device_id_to_visible_device_id(0)
    finally:
        assign_physical_devices(None)


def test_variables_that_contradict_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is built, with both values; the same value twice is fine."""
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    RocmPlatform.pre_register_and_update()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(ValueError, match="HIP_VISIBLE_DEVICES='0' and CUDA_VISIBLE_DEVICES='1'"):
        RocmPlatform.pre_register_and_update(None)


def test_an_identifier_or_a_number_too_large_is_named(
    mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMD's variables take identifiers that amdsmi cannot look up."""
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "GPU-b4ff")
    with pytest.raises(ValueError, match="HIP_VISIBLE_DEVICES='GPU-b4ff'"):
        RocmPlatform.get_device_name()
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "5")
    with pytest.raises(ValueError, match=r"device 5 does not exist: .* has 2.*HIP_VISIBLE_DEVICES='5'"):
        RocmPlatform.get_device_name()


# --- without amdsmi, without a device


def test_under_wsl_a_hip_torch_answers(no_amdsmi: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """amdsmi does not exist there."""
    torch_device.install(monkeypatch, "cuda", [torch_device.mi300x()], hip="6.4")
    p = RocmPlatform
    assert p.get_device_name() == "AMD Instinct MI300X"
    assert p.get_device_capability() == (9, 4)
    assert p.get_device_total_memory() == 196592 * MIB
    assert p.get_current_memory_usage() == 6592.0 * MIB
    assert p.num_compute_units() == 304
    assert p.get_device_uuid() == "74ff74a1-0000-1000-80f1-3b1d2c4e5f60"
    assert p.is_fp8_fnuz()
    assert p.device_count() == 1
    with pytest.raises(IndexError, match="device 1 does not exist"):
        p.get_device_name(1)


def test_what_amdsmi_refuses_torch_answers(mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of which amdsmi knows no memory is asked through torch."""
    torch_device.install(monkeypatch, "cuda", [torch_device.mi300x()], hip="6.4")
    mi300x.devices[0].memory = None
    assert RocmPlatform.get_device_total_memory() == 196592 * MIB
    assert mi300x.open_sessions == 0


@pytest.mark.parametrize("machine", [None, "no driver"])
def test_without_a_device_each_query_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, machine: str | None
) -> None:
    """Device queries raise the contract's error with a remedy; capabilities answer no."""
    monkeypatch.setitem(sys.modules, "amdsmi", fakes.no_driver() if machine else None)
    torch_device.install(monkeypatch, "cuda", [])
    p = RocmPlatform()
    store = PrefixStore("x", HashStore())
    for query in (
        p.get_device_name,
        p.get_device_uuid,
        p.get_device_total_memory,
        p.get_current_memory_usage,
        p.get_all_gpu_pci_bus_ids,
        p.num_compute_units,
        lambda: p.set_device(torch.device("cuda:0")),
        p.get_global_graph_pool,
        lambda: p.stateless_init_device_torch_dist_pg("nccl", store, 0, 1, None),
    ):
        with pytest.raises(DeviceUnavailable, match="amd-smi"):
            query()
    assert p.get_device_capability() is None
    assert p.get_all_device_numa_nodes() is None
    assert p.device_count() == 0
    assert not (p.supports_fp8())
    assert not (p.supports_mx())
    assert not (p.is_fp8_fnuz())
    assert not (p.is_on_gfx9())


def test_an_nvidia_device_is_none_of_its_own(no_amdsmi: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch for CUDA has devices of the same name."""
    torch_device.install(monkeypatch, "cuda", [torch_device.h100()])
    with pytest.raises(DeviceUnavailable):
        RocmPlatform.get_device_name()


def test_devices_without_a_direct_link_are_not_fully_connected(
    mi300x: fakes.FakeAmdSmi, caplog: pytest.LogCaptureFixture
) -> None:
    """PCIe, or two hops, will not do; without amdsmi nothing is known, with a warning."""
    assert RocmPlatform.is_fully_connected([0])
    mi300x.devices[0].links = frozenset()
    assert not RocmPlatform.is_fully_connected([0, 1])
    with pytest.raises(IndexError, match="device 7"):
        RocmPlatform.is_fully_connected([0, 7])
    mi300x.starts = False
    with caplog.at_level(logging.WARNING):
        assert not RocmPlatform.is_fully_connected([0, 1])
    assert "amdsmi does not say" in caplog.text


# --- config hooks


@pytest.fixture
def aiter_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel library AITER is installed."""
    real = importlib.util.find_spec
    found = importlib.util.spec_from_loader("aiter", loader=None)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: found if name == "aiter" else real(name, *a)
    )


def ops(given: list[str]) -> list[str]:
    config = EngineConfig(compilation_config=CompilationConfig(custom_ops=list(given)))
    RocmPlatform.apply_config_platform_defaults(config)
    once = list(config.compilation_config.custom_ops)
    RocmPlatform.apply_config_platform_defaults(config)
    assert config.compilation_config.custom_ops == once
    config.validate()
    return once


def test_defaults_turn_on_custom_ops_once() -> None:
    """A second call, which the engine core makes, adds nothing."""
    assert ops([]) == ["+sparse_attn_indexer"]


def test_with_aiter_its_ops_are_turned_on(aiter_installed: None) -> None:
    """Its kernels are faster than what is compiled."""
    assert ops([]) == ["+sparse_attn_indexer", "+rms_norm", "+quant_fp8", "+grouped_topk"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-rms_norm"], ["-rms_norm", "+sparse_attn_indexer", "+quant_fp8", "+grouped_topk"]),
        (["+grouped_topk"], ["+grouped_topk", "+sparse_attn_indexer", "+rms_norm", "+quant_fp8"]),
        (["none"], ["none"]),
        (["all", "-quant_fp8"], ["all", "-quant_fp8"]),
    ],
)
def test_what_the_user_said_of_ops_stays(
    aiter_installed: None, given: list[str], expected: list[str]
) -> None:
    """An op that was named is left alone, and so are all of them after `all` or `none`."""
    assert ops(given) == expected


def test_the_hook_sets_the_worker_and_keeps_images_whole() -> None:
    """As on CUDA; twice is once, and parts may be None."""
    config = EngineConfig(
        model_config=ModelConfig(is_mm_prefix_lm=True),
        scheduler_config=SchedulerConfig(is_multimodal_model=True),
    )
    RocmPlatform.check_and_update_config(config)
    once = snapshot(config)
    RocmPlatform.check_and_update_config(config)
    assert snapshot(config) == once
    assert config.scheduler_config.disable_chunked_mm_input is True
    bare = EngineConfig(parallel_config=ParallelConfig(worker_cls="mine.Worker"))
    RocmPlatform.check_and_update_config(bare)
    assert bare.parallel_config.worker_cls == "mine.Worker"


def test_quantization_is_verified_against_the_list() -> None:
    """A method with kernels passes, another one is a ValueError that lists them."""
    RocmPlatform.verify_quantization("quark")
    with pytest.raises(ValueError, match=r"'gguf' is not supported on rocm; supported: awq, gptq"):
        RocmPlatform.verify_quantization("gguf")


@pytest.mark.parametrize("field", ["target_graphics_version", "num_compute_units"])
def test_what_amdsmi_spells_as_unknown_torch_answers(
    mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """`N/A` is no architecture and no number."""
    torch_device.install(monkeypatch, "cuda", [torch_device.mi300x()], hip="6.4")
    monkeypatch.setattr(mi300x.devices[0], field, "N/A")
    assert RocmPlatform.get_device_capability() == (9, 4)
    assert RocmPlatform.num_compute_units() == 304


def test_a_device_without_a_name_has_its_architectures(mi300x: fakes.FakeAmdSmi) -> None:
    """Neither the table nor the driver knows it."""
    mi300x.devices[0].device_id, mi300x.devices[0].market_name = "0xffff", "N/A"
    assert RocmPlatform.get_device_name() == "AMD gfx942"


def test_overlapping_sessions_end_with_the_last(mi300x: fakes.FakeAmdSmi) -> None:
    """amdsmi does not count its users: one that ends must not take the handles of another."""
    with amd_smi.session() as outer:
        with amd_smi.session():
            assert mi300x.open_sessions == 1
        assert len(outer.amdsmi_get_processor_handles()) == 2
    assert mi300x.open_sessions == 0


def test_a_failing_shutdown_spoils_no_answer(
    mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is there already."""

    def refuse() -> None:
        raise fakes.AmdSmiException("AMDSMI_STATUS_NOT_INIT")

    monkeypatch.setattr(mi300x, "amdsmi_shut_down", refuse)
    assert RocmPlatform.num_compute_units() == 304


def test_hip_beyond_what_rocr_leaves_names_both(
    mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HIP counts within what ROCR leaves, so the two contradict each other."""
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    with pytest.raises(ValueError, match="HIP_VISIBLE_DEVICES='1'.*ROCR_VISIBLE_DEVICES='1'"):
        RocmPlatform.get_device_name()
    assert RocmPlatform.device_count() == 0


@pytest.mark.parametrize(
    ("rocr", "hip", "count"), [(None, "0,5", 1), ("0,1", "1", 1), ("1", None, 1), ("7", None, 0), ("", "", 2)]
)
def test_device_count_leaves_out_what_does_not_exist(
    mi300x: fakes.FakeAmdSmi, monkeypatch: pytest.MonkeyPatch, rocr: str | None, hip: str | None, count: int
) -> None:
    """An entry beyond the devices that there are hides itself and all after it."""
    for name, value in (("ROCR_VISIBLE_DEVICES", rocr), ("HIP_VISIBLE_DEVICES", hip)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert RocmPlatform.device_count() == count
