"""Facts of the XPU platform, on recorded devices."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")
import torch
from torch._C._distributed_c10d import HashStore, PrefixStore

from platform_abc.config import (
    EngineConfig,
    ModelConfig,
    SchedulerConfig,
    snapshot,
)
from platform_abc.errors import DeviceUnavailable, NotSupported
from platform_abc.qualname import resolve_obj_by_qualname
from platform_abc.types import PlatformEnum
from platforms.xpu import XPUPlatform
from tests.platforms.fakes import torch_device

MIB = 1024 * 1024
VARIABLE = "ZE_AFFINITY_MASK"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> torch_device.FakeRuntime:
    return torch_device.install(monkeypatch, "xpu", [torch_device.max_1550(), torch_device.max_1550()])


def test_its_identity() -> None:
    """The names and keys under which engines, torch and Ray know it."""
    p = XPUPlatform()
    assert p._enum is PlatformEnum.XPU
    assert (p.device_name, p.device_type, p.dispatch_key) == ("xpu", "xpu", "XPU")
    assert (p.ray_device_key, p.dist_backend, p.device_control_env_var) == ("GPU", "xccl", VARIABLE)
    assert p.is_xpu()
    assert not p.is_cuda_alike()


def test_importing_it_needs_no_device_and_no_torch() -> None:
    """The class exists on every machine."""
    code = "import sys; from platforms.xpu import XPUPlatform; XPUPlatform(); sys.exit(int('torch' in sys.modules))"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


def test_torch_answers_every_query(tiles: torch_device.FakeRuntime) -> None:
    """The values of a Data Center GPU Max 1550, one device a tile."""
    p = XPUPlatform
    assert p.get_device_name(1) == "Intel(R) Data Center GPU Max 1550"
    assert p.get_device_total_memory() == 65520 * MIB == 68702699520
    assert p.get_current_memory_usage("xpu:1") == 5520.0 * MIB
    assert p.num_compute_units() == 512
    assert p.get_device_uuid() == "868000d5-0000-0000-1800-000000000000"
    assert p.get_device_capability() is None
    assert not p.has_device_capability(0)
    assert p().device_count() == 2
    assert p.supports_fp8()
    assert p.fp8_dtype() is torch.float8_e4m3fn


@pytest.mark.parametrize("call", ["get_device_name", "get_device_total_memory", "num_compute_units"])
def test_an_id_out_of_range_is_named(tiles: torch_device.FakeRuntime, call: str) -> None:
    """With the number of devices that there are."""
    with pytest.raises(IndexError, match="device 2 does not exist: 2 are visible"):
        getattr(XPUPlatform, call)(2)
    with pytest.raises(IndexError, match="device 5"):
        XPUPlatform.get_current_memory_usage("xpu:5")


def test_the_mask_may_name_tiles(tiles: torch_device.FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile means its device; what is no number is an error with the variable."""
    monkeypatch.setenv(VARIABLE, "3,1.1")
    assert [XPUPlatform.visible_device_id_to_physical_device_id(i) for i in (0, 1)] == [3, 1]
    with pytest.raises(IndexError, match=VARIABLE):
        XPUPlatform.get_device_name(2)
    for value in ("x", "1.x"):
        monkeypatch.setenv(VARIABLE, value)
        with pytest.raises(ValueError, match=f"{VARIABLE}='{value}'"):
            XPUPlatform.get_device_name(0)


def test_an_a770_is_refused_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """It computes inaccurately in it; other dtypes and devices are fine."""
    torch_device.install(monkeypatch, "xpu", [torch_device.max_1550()])
    XPUPlatform.check_if_supports_dtype(torch.bfloat16)
    torch_device.install(monkeypatch, "xpu", [torch_device.arc_a770()])
    XPUPlatform.check_if_supports_dtype(torch.float16)
    with pytest.raises(ValueError, match=r"A770 .*--dtype=float16"):
        XPUPlatform.check_if_supports_dtype(torch.bfloat16)
    with pytest.raises(ValueError, match="float64"):
        XPUPlatform.check_if_supports_dtype(torch.float64)


def test_a_torch_that_tells_no_uuid_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the version that does."""
    torch_device.install(monkeypatch, "xpu", [torch_device.arc_a770()])
    with pytest.raises(NotSupported, match=r"torch 2.8"):
        XPUPlatform.get_device_uuid()


def test_without_a_device_each_query_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device queries raise the contract's error with a remedy."""
    torch_device.install(monkeypatch, "xpu", [])
    p = XPUPlatform()
    store = PrefixStore("x", HashStore())
    for query in (
        p.get_device_name,
        p.get_device_uuid,
        p.get_device_total_memory,
        p.get_current_memory_usage,
        p.num_compute_units,
        lambda: p.set_device(torch.device("xpu:0")),
        p.get_global_graph_pool,
        lambda: p.stateless_init_device_torch_dist_pg("xccl", store, 0, 1, None),
        lambda: p.check_if_supports_dtype(torch.bfloat16),
    ):
        with pytest.raises(DeviceUnavailable, match="xpu-smi"):
            query()


def test_device_seed_and_inference_mode_reach_torch(tiles: torch_device.FakeRuntime) -> None:
    """The device becomes current; no inference tensors are made."""
    XPUPlatform.set_device(torch.device("xpu:1"))
    XPUPlatform.manual_seed_all(5)
    assert (tiles.current, tiles.seeds) == (1, [5])
    with XPUPlatform.inference_mode():
        assert not torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
    with pytest.raises(ValueError, match="'xpu', got cpu"):
        XPUPlatform.set_device(torch.device("cpu"))


def test_the_hook_changes_the_worker_alone_and_twice_is_once() -> None:
    """Also without a model part; images stay whole where the model needs it."""
    config = EngineConfig()
    XPUPlatform.apply_config_platform_defaults(config)
    XPUPlatform.check_and_update_config(config)
    once = snapshot(config)
    XPUPlatform.check_and_update_config(config)
    assert snapshot(config) == once
    assert isinstance(resolve_obj_by_qualname(config.parallel_config.worker_cls), type)
    images = EngineConfig(
        model_config=ModelConfig(is_mm_prefix_lm=True),
        scheduler_config=SchedulerConfig(is_multimodal_model=True),
    )
    XPUPlatform.check_and_update_config(images)
    assert images.scheduler_config.disable_chunked_mm_input is True


def test_a_device_that_is_not_there_is_named_with_the_mask(
    tiles: torch_device.FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver leaves out what the mask names and the machine does not have."""
    monkeypatch.setenv(VARIABLE, "0,1,9")
    for call in (
        lambda: XPUPlatform.get_device_name(2),
        lambda: XPUPlatform.get_current_memory_usage(2),
        lambda: XPUPlatform.set_device(torch.device("xpu:2")),
    ):
        with pytest.raises(IndexError, match=f"device 2 does not exist: 2 are visible.*{VARIABLE}='0,1,9'"):
            call()


def test_two_tiles_of_one_device_are_two_devices(
    tiles: torch_device.FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each local rank has its own tile."""
    monkeypatch.setenv(VARIABLE, "0.0,0.1")
    assert [XPUPlatform.logical_device_id_to_visible_device_id(i) for i in (0, 1)] == [0, 1]
