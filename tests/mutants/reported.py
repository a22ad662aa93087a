"""Mutants with faults that people reported, where no other module of the zoo has them already."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from platform_abc.platform import Platform
from platform_abc.types import PlatformEnum
from tests.mutants.good import HERE, Good

if TYPE_CHECKING:
    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig


class NoSetDevice(Good):
    """Leaves choosing the device to the base, which only raises."""

    set_device = Platform.set_device  # type: ignore[assignment]


class _Vendor(Good, abstract=True):
    """A base of the vendor's own, which grew a member with its last release."""

    @classmethod
    @abstractmethod
    def create_graph(cls) -> str:
        """Name what captures a graph."""


class BehindItsBase(_Vendor, abstract=True):
    """Lacks a member that a newer release of its own base leaves open."""


class WithItsBase(_Vendor):
    """Defines the member that its own base leaves open."""

    @classmethod
    def create_graph(cls) -> str:
        """Name nothing."""
        return ""


class NoHeads(Good):
    """Lacks the newest keyword of the attention picker."""

    @classmethod
    def get_attn_backend_cls(  # type: ignore[override]
        cls, selected_backend: AttentionBackendEnum | None, attn_selector_config: AttentionSelectorConfig
    ) -> str:
        """Name the one backend."""
        cls._only_own(selected_backend)
        return f"{HERE}.Backend"


class NameNeedsNumber(Good):
    """Cannot be asked for the name of the first device without saying that it is the first."""

    @classmethod
    def get_device_name(cls, device_id: int) -> str:  # type: ignore[override]
        """Return the name of the chip."""
        return "CHIP-9"


class MemoryUnread(Good):
    """Lets the error of the driver's library out when it cannot read the memory."""

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Ask the driver's library."""
        raise OSError("the management library answered: not supported")


class MemoryElsewhere(Good):
    """Asks the host when the driver's library cannot read the memory."""

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Ask the driver's library, then the host."""
        try:
            return cls._driver()
        except OSError:
            return 8 << 30

    @classmethod
    def _driver(cls) -> int:
        raise OSError("the management library answered: not supported")


class ChoosesByDevice(Good):
    """Chooses a compile backend by kinds of device, and has no branch for its own."""

    @classmethod
    def get_compile_backend(cls) -> str:
        """Choose by the kind."""
        if cls._enum is PlatformEnum.CUDA:
            chosen = "inductor"
        elif cls._enum is PlatformEnum.CPU:
            chosen = "eager"
        return chosen


class NoUnits(Good):
    """Counts no compute unit on a device that computes."""

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Count none."""
        return 0
