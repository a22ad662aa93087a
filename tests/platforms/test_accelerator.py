"""Facts of what the platforms of accelerators share: torch starts the device."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
import torch
from torch._C._distributed_c10d import HashStore, PrefixStore

from platform_abc.config import CompilationConfig, CUDAGraphMode, EngineConfig
from platform_abc.errors import ConfigError, DeviceUnavailable, NotSupported
from platforms import common
from platforms.accelerator import AcceleratorPlatform
from platforms.cuda import CudaPlatform, NvmlCudaPlatform, TorchCudaPlatform
from platforms.rocm import RocmPlatform
from platforms.xpu import XPUPlatform
from tests.platforms.fakes import torch_device

CUDA = [(cls, torch_device.h100, None) for cls in (CudaPlatform, NvmlCudaPlatform, TorchCudaPlatform)]
CLASSES = [*CUDA, (RocmPlatform, torch_device.mi300x, "6.4"), (XPUPlatform, torch_device.max_1550, None)]
Case = tuple[type[AcceleratorPlatform], torch_device.FakeRuntime]


@pytest.fixture(params=CLASSES, ids=lambda case: case[0].__name__)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Each class, on a machine with two of its devices."""
    cls: type[AcceleratorPlatform]
    device: Callable[[], SimpleNamespace]
    cls, device, hip = request.param
    monkeypatch.delenv(cls.device_control_env_var, raising=False)
    monkeypatch.setattr(cls, "_global_graph_pool", None)
    runtime = torch_device.install(monkeypatch, cls.device_type, [device(), device()], hip=hip)
    monkeypatch.setattr(torch, "zeros", lambda *_, device: None)
    return cls, runtime


def test_device_and_seed_reach_torch(case: Case) -> None:
    """Under the name of the device type; another type is refused."""
    cls, runtime = case
    cls.set_device(torch.device(cls.device_type, 1))
    cls.manual_seed_all(7)
    assert (runtime.current, runtime.seeds) == (1, [7])
    with pytest.raises(ValueError, match=f"'{cls.device_type}', got cpu"):
        cls.set_device(torch.device("cpu"))


def test_a_device_that_is_not_there_cannot_be_made_current(case: Case) -> None:
    """The error names the id."""
    cls, runtime = case
    with pytest.raises(IndexError, match="device 3 does not exist"):
        cls.set_device(torch.device(cls.device_type, 3))
    assert runtime.current is None


def test_the_graph_pool_is_one_for_the_process(case: Case) -> None:
    """Torch's handle is asked for once; without a device there is none."""
    cls, runtime = case
    assert cls().get_global_graph_pool() is cls().get_global_graph_pool()
    runtime.devices.clear()
    with pytest.raises(DeviceUnavailable, match="get_global_graph_pool"):
        cls().get_global_graph_pool()


def test_the_process_group_wants_its_own_backend(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another name, a torch without the backend, and a machine without the device are errors that say so."""
    cls, runtime = case
    own, store = cls.dist_backend, PrefixStore("x", HashStore())
    with pytest.raises(ValueError, match=f"'{own}' on {cls.device_name}, got 'gloo'"):
        cls.stateless_init_device_torch_dist_pg("gloo", store, 0, 1, None)  # type: ignore[arg-type]
    monkeypatch.setattr(f"torch.distributed.is_{own}_available", lambda: False)
    with pytest.raises(ValueError, match=f"no {own}"):
        cls.stateless_init_device_torch_dist_pg(own, store, 0, 1, None)  # type: ignore[arg-type]
    runtime.devices.clear()
    with pytest.raises(DeviceUnavailable, match="stateless_init_device_torch_dist_pg"):
        cls.stateless_init_device_torch_dist_pg(own, store, 0, 1, None)  # type: ignore[arg-type]


def test_what_this_package_has_no_means_for_is_denied(case: Case) -> None:
    """There is no allocator to sleep with, and graphs are captured by torch.cuda alone."""
    cls, _ = case
    assert not cls().is_sleep_mode_available()
    assert not cls().is_cumem_allocator_available()
    captures = cls.device_type == "cuda"
    assert cls.support_static_graph_mode() is captures
    config = EngineConfig(compilation_config=CompilationConfig(cudagraph_mode=CUDAGraphMode.FULL))
    if captures:
        cls.check_and_update_config(config)
        assert cls.get_static_graph_wrapper_cls() == common.CUDA_GRAPHS
        return
    with pytest.raises(ConfigError, match="cudagraph_mode = FULL"):
        cls.check_and_update_config(config)
    with pytest.raises(NotSupported):
        cls.get_static_graph_wrapper_cls()
