"""A stand-in for `amdsmi`: machines with recorded values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs


class AmdSmiException(Exception):
    """The binding's base error."""


@attrs.define(eq=False)
class Device:
    """One device, as amdsmi describes it; memory in bytes."""

    market_name: str
    device_id: str
    target_graphics_version: str
    num_compute_units: int
    uuid: str
    bdf: str
    memory: int | None
    numa_node: int | None = 0
    links: frozenset[int] = frozenset()
    used: int = 300 * 1024 * 1024


class _MemoryTypes:
    VRAM: ClassVar[str] = "vram"


class FakeAmdSmi:
    """The module `amdsmi` of one machine."""

    AmdSmiException = AmdSmiException
    AmdSmiMemoryType = _MemoryTypes

    def __init__(self, devices: Sequence[Device], *, starts: bool = True) -> None:
        self.devices = list(devices)
        self.starts = starts
        self.open_sessions = 0

    def amdsmi_init(self) -> None:
        if not self.starts:
            raise AmdSmiException("Error code: 34 | AMDSMI_STATUS_DRIVER_NOT_LOADED")
        self.open_sessions += 1

    def amdsmi_shut_down(self) -> None:
        self.open_sessions -= 1

    def amdsmi_get_processor_handles(self) -> list[Device]:
        assert self.open_sessions > 0
        return list(self.devices)

    def amdsmi_get_gpu_asic_info(self, handle: Device) -> dict[str, object]:
        assert self.open_sessions > 0
        return {
            "market_name": handle.market_name,
            "vendor_id": "0x1002",
            "device_id": handle.device_id,
            "num_compute_units": handle.num_compute_units,
            "target_graphics_version": handle.target_graphics_version,
        }

    def amdsmi_get_gpu_device_uuid(self, handle: Device) -> str:
        assert self.open_sessions > 0
        return handle.uuid

    def amdsmi_get_gpu_device_bdf(self, handle: Device) -> str:
        assert self.open_sessions > 0
        return handle.bdf

    def amdsmi_get_gpu_memory_total(self, handle: Device, kind: object) -> int:
        assert self.open_sessions > 0
        assert kind == _MemoryTypes.VRAM
        if handle.memory is None:
            raise AmdSmiException("Error code: 2 | AMDSMI_STATUS_NOT_SUPPORTED")
        return handle.memory

    def amdsmi_get_gpu_memory_usage(self, handle: Device, kind: object) -> int:
        assert self.open_sessions > 0
        assert kind == _MemoryTypes.VRAM
        return handle.used

    def amdsmi_topo_get_link_type(self, one: Device, other: Device) -> dict[str, int]:
        assert self.open_sessions > 0
        linked = self.devices.index(other) in one.links
        return {"hops": 1, "type": 2} if linked else {"hops": 2, "type": 1}

    def amdsmi_topo_get_numa_node_number(self, handle: Device) -> int:
        assert self.open_sessions > 0
        if handle.numa_node is None:
            raise AmdSmiException("Error code: 2 | AMDSMI_STATUS_NOT_SUPPORTED")
        return handle.numa_node


MIB = 1024 * 1024


def mi300x_pair() -> FakeAmdSmi:
    """Two MI300X (gfx942) of an OAM board, linked by XGMI."""
    return FakeAmdSmi(
        [
            Device(
                market_name="AMD Instinct MI300X",
                device_id="0x74a1",
                target_graphics_version="gfx942",
                num_compute_units=304,
                uuid="74ff74a1-0000-1000-80f1-3b1d2c4e5f60",
                bdf="0000:05:00.0",
                memory=196592 * MIB,
                numa_node=0,
                links=frozenset({1}),
            ),
            Device(
                market_name="AMD Instinct MI300X",
                device_id="0x74a1",
                target_graphics_version="gfx942",
                num_compute_units=304,
                uuid="b4ff74a1-0000-1000-8045-7a8b9c0d1e2f",
                bdf="0000:26:00.0",
                memory=196592 * MIB,
                numa_node=1,
                links=frozenset({0}),
            ),
        ]
    )


def rx7900xtx() -> FakeAmdSmi:
    """A desktop board (gfx1100), whose driver knows no marketing name."""
    return FakeAmdSmi(
        [
            Device(
                market_name="N/A",
                device_id="0x744c",
                target_graphics_version="gfx1100",
                num_compute_units=96,
                uuid="36ff744c-0000-1000-8098-112233445566",
                bdf="0000:03:00.0",
                memory=24560 * MIB,
                numa_node=None,
            )
        ]
    )


def no_driver() -> FakeAmdSmi:
    """A machine whose kernel has no amdgpu."""
    return FakeAmdSmi([], starts=False)
