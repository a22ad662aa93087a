"""Facts of `platforms.cuda_nvml`, on recorded machines: parts of devices, refused answers, links, NUMA nodes."""

from __future__ import annotations

import logging
import os
import sys

import attrs
import pytest

pytest.importorskip("torch")
import torch

from platform_abc.errors import DeviceUnavailable
from platforms import cuda_nvml
from platforms.cuda import CudaPlatform, NvmlCudaPlatform
from platforms.host_memory import MemoryState
from tests.platforms.fakes import nvml as fakes
from tests.platforms.fakes import torch_device

VARIABLE = "CUDA_VISIBLE_DEVICES"
MIB = 1024 * 1024


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


def test_a_mig_instance_answers_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory, name, UUID and multiprocessors are the instance's, capability and id its device's."""
    machine = with_nvml(monkeypatch, fakes.a100_with_mig())
    monkeypatch.setenv(VARIABLE, machine.instances[0].uuid)
    assert CudaPlatform.get_device_name() == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
    assert CudaPlatform.get_device_uuid() == machine.instances[0].uuid
    assert CudaPlatform.get_device_total_memory() == 19968 * MIB
    assert CudaPlatform.num_compute_units() == 42
    assert CudaPlatform.get_device_capability() == (8, 0)
    assert CudaPlatform.visible_device_id_to_physical_device_id(0) == 0
    assert not CudaPlatform.supports_fp8()
    monkeypatch.delenv(VARIABLE)
    assert CudaPlatform.get_device_name() == "NVIDIA A100-SXM4-40GB"
    assert CudaPlatform.num_compute_units() == 108
    assert CudaPlatform.get_all_gpu_pci_bus_ids() == {0: "00000000:07:00.0"}


def test_an_integrated_device_has_the_hosts_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML refuses to count its memory; the answer is the host's, and never zero."""
    with_nvml(monkeypatch, fakes.integrated_gb10())
    monkeypatch.setattr(cuda_nvml, "host_memory", lambda: MemoryState(128 << 30, 100 << 30))
    assert CudaPlatform.get_device_total_memory() == 128 << 30
    assert CudaPlatform.get_current_memory_usage() == float(28 << 30)
    assert CudaPlatform.is_integrated_gpu()
    assert CudaPlatform.num_compute_units() == 48
    monkeypatch.setattr(cuda_nvml, "host_memory", lambda: None)
    with pytest.raises(DeviceUnavailable, match="/proc/meminfo"):
        CudaPlatform.get_device_total_memory()


def test_a_lost_device_is_unavailable_and_no_session_stays_open(h100s: fakes.FakeNvml) -> None:
    """An error of NVML becomes one of the contract, with NVML's own words."""
    h100s.broken["nvmlDeviceGetMemoryInfo"] = fakes.NVMLError("GPU is lost")
    with pytest.raises(DeviceUnavailable, match="GPU is lost"):
        CudaPlatform.get_device_total_memory()
    h100s.broken["nvmlDeviceGetP2PStatus"] = fakes.NVMLError("GPU is lost")
    assert not CudaPlatform.is_fully_connected([0, 1])
    assert h100s.open_sessions == 0


def test_devices_without_nvlink_are_not_fully_connected(h100s: fakes.FakeNvml) -> None:
    """One missing link is enough; one device alone is connected."""
    h100s.devices[0].links = frozenset()
    assert not CudaPlatform.is_fully_connected([0, 1])
    assert CudaPlatform.is_fully_connected([1])


def test_units_come_from_torch_where_nvml_cannot_count(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generation that is not in the table is counted by torch."""
    runtime = torch_device.install(monkeypatch, "cuda", [torch_device.h100()])
    h100s.devices[0].capability = (13, 0)
    assert CudaPlatform.num_compute_units() == 132
    assert runtime.contexts == ["get_device_properties"]


def test_a_capability_that_nvml_refuses_comes_from_torch(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NVML of newer Jetson boards starts, but answers little."""
    torch_device.install(monkeypatch, "cuda", [torch_device.orin()])
    h100s.broken["nvmlDeviceGetCudaComputeCapability"] = fakes.NVMLError_NotSupported("Not Supported")
    assert CudaPlatform.get_device_capability() == (8, 7)
    assert NvmlCudaPlatform.get_device_capability() is None


def test_numa_nodes_by_nvml_and_by_near_processors(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node with processors is taken; a memory-only one is replaced by that of the near processors."""
    monkeypatch.setattr(cuda_nvml, "cpus_of_node", lambda node: [0, 1] if node == 0 else [])
    monkeypatch.setattr(cuda_nvml, "node_of_cpu", lambda cpu: {0: 0, 70: 2}[cpu])
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    assert CudaPlatform.get_all_device_numa_nodes() is None
    h100s.devices[1].affinity = frozenset({70, 71})
    assert CudaPlatform.get_all_device_numa_nodes() == [0, 2]


def test_different_devices_are_a_warning_once_cuda_may_renumber_them(
    h100s: fakes.FakeNvml, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only where names differ and the order is not the bus's."""
    with caplog.at_level(logging.WARNING):
        CudaPlatform.log_warnings()
        assert not caplog.records
        h100s.devices[1].name = "NVIDIA L4"
        monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        CudaPlatform.log_warnings()
        assert not caplog.records
        monkeypatch.delenv("CUDA_DEVICE_ORDER")
        CudaPlatform.log_warnings()
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in caplog.text
