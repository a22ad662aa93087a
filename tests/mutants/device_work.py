"""Platforms whose device does not do what it says: memory, dtypes, events, groups; and some that are right."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.mutants.good import Good

if TYPE_CHECKING:
    from datetime import timedelta

    import torch
    from torch._C._distributed_c10d import PrefixStore, ProcessGroup


def resident() -> int:
    """Return the bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class MemoryConstant(Good):
    """Gives a number of bytes in use that somebody once measured."""

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        """Return 1 GiB in bytes."""
        return float(1 << 30)


class FreeConstant(Good):
    """Gives the free bytes that there were at the first call."""

    _first: list[int] = []

    @classmethod
    def mem_get_info(cls, device: Any = None) -> tuple[int, int]:
        """Return free and total bytes."""
        if not cls._first:
            cls._first.append((8 << 30) - resident())
        return cls._first[0], 8 << 30


class FreeMeasured(Good):
    """Gives free and total bytes, measured."""

    @classmethod
    def mem_get_info(cls, device: Any = None) -> tuple[int, int]:
        """Return free and total bytes."""
        return (8 << 30) - resident(), 8 << 30


class ListsEighthBits(Good):
    """Lists a dtype that the host stores and does not compute in."""

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The dtypes."""
        import torch

        return [torch.float32, torch.float8_e4m3fn]


class ListsDouble(Good):
    """Lists a dtype more than others do, in which the host computes."""

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The dtypes."""
        import torch

        return [torch.float32, torch.bfloat16, torch.float64]


class OwnEvent:
    """An event that takes the host's time."""

    unit = 1000.0

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        """Take the time."""
        self.at = time.perf_counter()

    def query(self) -> bool:
        """Say that what came before is done."""
        return self.at > 0

    def synchronize(self) -> None:
        """Return: what came before is done."""

    def wait(self, stream: Any = None) -> None:
        """Return: what came before is done."""

    def elapsed_time(self, end: OwnEvent) -> float:
        """Return the milliseconds from this one to another."""
        return (end.at - self.at) * self.unit


class SecondsEvent(OwnEvent):
    """An event that counts seconds."""

    unit = 1.0


class UnrecordedEvent(OwnEvent):
    """An event that records nothing."""

    def record(self, stream: Any = None) -> None:
        """Do nothing."""


class EventsTimed(Good):
    """Has events of its own, which are right."""

    Event = OwnEvent


class EventsInSeconds(Good):
    """Has events of its own, which count seconds."""

    Event = SecondsEvent


class EventsUnrecorded(Good):
    """Has events of its own, which record nothing."""

    Event = UnrecordedEvent


class NoDevices(Good):
    """Counts devices that a tool lists, which is not installed."""

    @classmethod
    def device_count(cls) -> int:
        """Return how many there are."""
        return 0


class OneDevice(Good):
    """Counts the host as one device."""

    @classmethod
    def device_count(cls) -> int:
        """Return 1."""
        return 1


class Grouped(Good):
    """Makes process groups, which is right."""

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls, backend: str, prefix_store: PrefixStore, group_rank: int, group_size: int, timeout: timedelta
    ) -> ProcessGroup:
        """Make a group."""
        from platforms.process_group import make_group

        return make_group("chip", backend, cls._store(prefix_store), group_rank, group_size, timeout)

    @classmethod
    def _store(cls, given: PrefixStore) -> PrefixStore:
        return given


class GroupsAlone(Grouped):
    """Makes each process a group over a store of its own."""

    @classmethod
    def _store(cls, given: PrefixStore) -> PrefixStore:
        from torch._C._distributed_c10d import HashStore, PrefixStore

        return PrefixStore("chip", HashStore())


class FreeAsUsed(Good):
    """Gives the bytes that are free as those in use."""

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        """Return bytes."""
        return float((8 << 30) - resident())
