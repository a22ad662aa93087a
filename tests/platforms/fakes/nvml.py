"""A stand-in for `pynvml`: machines with recorded values, and the library's ways to refuse."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import TypeVar

_T = TypeVar("_T")


class NVMLError(Exception):
    """The binding's base error."""


class NVMLError_NotSupported(NVMLError):
    """The device does not answer this question."""


class NVMLError_LibraryNotFound(NVMLError):
    """There is no driver."""


@attrs.define(eq=False)
class Device:
    """One device or MIG instance; a value of None is a question it refuses.

    Args:
        memory: `(total, used)` in bytes.
        links: indices of the devices it reaches over NVLink in one hop.
        affinity: numbers of the processors near it.
    """

    name: str | bytes
    uuid: str
    memory: tuple[int, int] | None
    capability: tuple[int, int] = (9, 0)
    cores: int | None = None
    bus_id: str | bytes = ""
    numa_node: int | None = None
    links: frozenset[int] = frozenset()
    affinity: frozenset[int] = frozenset()
    parent: Device | None = None
    multiprocessors: int | None = None


@attrs.define
class _Memory:
    total: int
    used: int


@attrs.define
class _Pci:
    busId: str | bytes


@attrs.define
class _Attributes:
    multiprocessorCount: int


class FakeNvml:
    """The module `pynvml` of one machine.

    Args:
        devices: the physical devices, by index.
        instances: MIG instances.
        starts: whether there is a driver.
    """

    NVMLError = NVMLError
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0

    def __init__(
        self, devices: Sequence[Device], instances: Sequence[Device] = (), *, starts: bool = True
    ) -> None:
        self.devices = list(devices)
        self.instances = list(instances)
        self.starts = starts
        self.open_sessions = 0
        self.broken: dict[str, NVMLError] = {}

    def nvmlInit(self) -> None:
        if not self.starts:
            raise NVMLError_LibraryNotFound("NVML Shared Library Not Found")
        self.open_sessions += 1

    def nvmlShutdown(self) -> None:
        self.open_sessions -= 1

    def _opened(self, function: str) -> None:
        assert self.open_sessions > 0, f"{function} outside of nvmlInit and nvmlShutdown"
        if function in self.broken:
            raise self.broken[function]

    def nvmlDeviceGetCount(self) -> int:
        self._opened("nvmlDeviceGetCount")
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:
        self._opened("nvmlDeviceGetHandleByIndex")
        if not 0 <= index < len(self.devices):
            raise NVMLError("Invalid Argument")
        return self.devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Device:
        self._opened("nvmlDeviceGetHandleByUUID")
        for device in [*self.devices, *self.instances]:
            if device.uuid == uuid:
                return device
        raise NVMLError("Not Found")

    def nvmlDeviceIsMigDeviceHandle(self, handle: Device) -> int:
        self._opened("nvmlDeviceIsMigDeviceHandle")
        return int(handle.parent is not None)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Device) -> Device:
        self._opened("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
        return _given(handle.parent)

    def nvmlDeviceGetIndex(self, handle: Device) -> int:
        self._opened("nvmlDeviceGetIndex")
        if handle.parent is not None:
            raise NVMLError_NotSupported("Not Supported")
        return self.devices.index(handle)

    def nvmlDeviceGetName(self, handle: Device) -> str | bytes:
        self._opened("nvmlDeviceGetName")
        return handle.name

    def nvmlDeviceGetUUID(self, handle: Device) -> str:
        self._opened("nvmlDeviceGetUUID")
        return handle.uuid

    def nvmlDeviceGetMemoryInfo(self, handle: Device) -> _Memory:
        self._opened("nvmlDeviceGetMemoryInfo")
        return _Memory(*_given(handle.memory))

    def nvmlDeviceGetCudaComputeCapability(self, handle: Device) -> list[int]:
        self._opened("nvmlDeviceGetCudaComputeCapability")
        if handle.parent is not None:
            raise NVMLError_NotSupported("Not Supported")
        return list(handle.capability)

    def nvmlDeviceGetNumGpuCores(self, handle: Device) -> int:
        self._opened("nvmlDeviceGetNumGpuCores")
        return _given(handle.cores)

    def nvmlDeviceGetAttributes(self, handle: Device) -> _Attributes:
        self._opened("nvmlDeviceGetAttributes")
        return _Attributes(_given(handle.multiprocessors))

    def nvmlDeviceGetPciInfo(self, handle: Device) -> _Pci:
        self._opened("nvmlDeviceGetPciInfo")
        return _Pci(handle.bus_id)

    def nvmlDeviceGetP2PStatus(self, one: Device, other: Device, index: int) -> int:
        self._opened("nvmlDeviceGetP2PStatus")
        assert index == self.NVML_P2P_CAPS_INDEX_NVLINK
        return self.NVML_P2P_STATUS_OK if self.devices.index(other) in one.links else 5

    def nvmlDeviceGetNumaNodeId(self, handle: Device) -> int:
        self._opened("nvmlDeviceGetNumaNodeId")
        return _given(handle.numa_node)

    def nvmlDeviceGetCpuAffinity(self, handle: Device, words: int) -> list[int]:
        self._opened("nvmlDeviceGetCpuAffinity")
        if not handle.affinity:
            raise NVMLError_NotSupported("Not Supported")
        return [sum(1 << (c - 64 * w) for c in handle.affinity if c // 64 == w) for w in range(words)]


def _given(value: _T | None) -> _T:
    if value is None:
        raise NVMLError_NotSupported("Not Supported")
    return value


MIB = 1024 * 1024


def h100_pair() -> FakeNvml:
    """Two H100 80GB HBM3 with NVLink, as an HGX board reports them."""
    return FakeNvml(
        [
            Device(
                name="NVIDIA H100 80GB HBM3",
                uuid="GPU-3f5c1f6e-6f0a-4c8c-9d7b-0a1b2c3d4e5f",
                memory=(81559 * MIB, 1024 * MIB),
                capability=(9, 0),
                cores=16896,
                bus_id="00000000:19:00.0",
                numa_node=0,
                links=frozenset({1}),
            ),
            Device(
                name="NVIDIA H100 80GB HBM3",
                uuid="GPU-8a2d7c10-1b2c-4e6f-8f90-5e4d3c2b1a00",
                memory=(81559 * MIB, 2048 * MIB),
                capability=(9, 0),
                cores=16896,
                bus_id="00000000:3B:00.0",
                numa_node=1,
                links=frozenset({0}),
            ),
        ]
    )


def a100_with_mig() -> FakeNvml:
    """An A100 40GB that is cut into MIG instances, of which one is a 3g.20gb."""
    whole = Device(
        name=b"NVIDIA A100-SXM4-40GB",
        uuid="GPU-5d2e0a7b-9c1d-4a55-b0a1-2f3e4d5c6b7a",
        memory=(40960 * MIB, 512 * MIB),
        capability=(8, 0),
        cores=6912,
        bus_id=b"00000000:07:00.0\x00\x00",
        affinity=frozenset({0, 1}),
    )
    part = Device(
        name="NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        uuid="MIG-c7f6d0a4-2b1e-5f3c-8d9a-7e6f5a4b3c2d",
        memory=(19968 * MIB, 32 * MIB),
        parent=whole,
        multiprocessors=42,
    )
    return FakeNvml([whole], [part])


def integrated_gb10() -> FakeNvml:
    """A GB10 (DGX Spark), whose NVML knows no memory: it shares the host's."""
    return FakeNvml(
        [
            Device(
                name="NVIDIA GB10",
                uuid="GPU-11a0c5e2-7788-4c3d-9e0f-aabbccddeeff",
                memory=None,
                capability=(12, 1),
                cores=6144,
                bus_id="0000000F:01:00.0",
            )
        ]
    )


def no_driver() -> FakeNvml:
    """A machine without NVIDIA driver, or a Jetson of the older kind."""
    return FakeNvml([], starts=False)
