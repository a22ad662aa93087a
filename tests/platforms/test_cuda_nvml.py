"""Facts of `platforms.cuda_nvml` where devices are parts, hidden, current or refuse to answer."""

from __future__ import annotations

import sys

import attrs
import pytest

pytest.importorskip("torch")
import torch

from platform_abc.errors import DeviceUnavailable
from platforms import cuda_nvml
from platforms.cuda import CudaPlatform
from tests.platforms.fakes import nvml as fakes
from tests.platforms.fakes import torch_device

VARIABLE = "CUDA_VISIBLE_DEVICES"
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(cuda_nvml, "_CAPABILITIES", {})


def with_nvml(monkeypatch: pytest.MonkeyPatch, machine: fakes.FakeNvml) -> fakes.FakeNvml:
    monkeypatch.setitem(sys.modules, "pynvml", machine)
    return machine


@pytest.fixture
def h100s(monkeypatch: pytest.MonkeyPatch) -> fakes.FakeNvml:
    return with_nvml(monkeypatch, fakes.h100_pair())


def test_two_mig_instances_of_one_device_are_two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each local rank has its own instance, though both are parts of physical device 0."""
    machine = with_nvml(monkeypatch, fakes.a100_with_mig())
    first = machine.instances[0]
    second = attrs.evolve(first, uuid="MIG-00000000-0000-5f3c-8d9a-7e6f5a4b3c2d", memory=(4864 * MIB, 0))
    machine.instances.append(second)
    monkeypatch.setenv(VARIABLE, f"{second.uuid}, {first.uuid}")
    p = CudaPlatform
    assert [p.logical_device_id_to_visible_device_id(i) for i in (0, 1)] == [0, 1]
    assert [p.device_id_to_physical_device_id(i) for i in (0, 1)] == [0, 0]
    assert [p.get_device_uuid(i) for i in (0, 1)] == [second.uuid, first.uuid]
    assert [p.get_device_total_memory(i) for i in (0, 1)] == [4864 * MIB, 19968 * MIB]
    assert p.device_count() == 2


def test_a_mig_instance_without_a_shape_is_counted_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers that do not tell an instance's attributes leave the count to torch."""
    machine = with_nvml(monkeypatch, fakes.a100_with_mig())
    machine.instances[0].multiprocessors = None
    monkeypatch.setenv(VARIABLE, machine.instances[0].uuid)
    torch_device.install(monkeypatch, "cuda", [torch_device.orin()])
    assert CudaPlatform.num_compute_units() == 16


def test_kept_capabilities_answer_for_no_other_id(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was answered before does not make a hidden or a negative id exist."""
    assert CudaPlatform.get_device_capability(1) == (9, 0)
    monkeypatch.setenv(VARIABLE, "1")
    assert CudaPlatform.get_device_capability(0) == (9, 0)
    with pytest.raises(IndexError, match=VARIABLE):
        CudaPlatform.get_device_capability(1)
    with pytest.raises(ValueError, match="-1"):
        CudaPlatform.get_device_capability(-1)


def test_a_failing_shutdown_of_nvml_spoils_no_answer(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code of the process may have shut NVML down once too often."""

    def refuse() -> None:
        raise fakes.NVMLError("Uninitialized")

    monkeypatch.setattr(h100s, "nvmlShutdown", refuse)
    assert CudaPlatform.get_device_name() == "NVIDIA H100 80GB HBM3"
    h100s.broken["nvmlDeviceGetName"] = fakes.NVMLError("GPU is lost")
    with pytest.raises(DeviceUnavailable, match="GPU is lost"):
        CudaPlatform.get_device_name()


def test_without_an_argument_the_current_device_is_meant(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory in use is that of the device that was set; before any was set, of the first."""
    runtime = torch_device.install(monkeypatch, "cuda", [torch_device.h100(), torch_device.h100()])
    assert CudaPlatform.get_current_memory_usage() == 1024.0 * MIB
    assert runtime.contexts == []
    runtime.current, runtime.contexts = 1, ["set_device"]
    for device in (None, "cuda", torch.device("cuda")):
        assert CudaPlatform.get_current_memory_usage(device) == 2048.0 * MIB
    assert CudaPlatform.get_current_memory_usage(0) == 1024.0 * MIB
    with pytest.raises(ValueError, match="of the type 'cuda', got cpu"):
        CudaPlatform.get_current_memory_usage("cpu")


def test_a_device_that_is_not_there_cannot_be_made_current(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is no assertion on the device: it names the id, and the variable that hides it."""
    torch_device.install(monkeypatch, "cuda", [torch_device.h100()])
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(IndexError, match=f"device 1 does not exist: 1 are visible.*{VARIABLE}='1'"):
        CudaPlatform.set_device(torch.device("cuda:1"))
