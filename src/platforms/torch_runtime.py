"""`torch.cuda` and `torch.xpu` as the platforms ask them: with a remedy where there is no device.

torch is imported here, when something is asked; most questions create a device context in this process.
"""

# ruff: noqa: D102  the names are torch's, and so are their meanings
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal, Protocol, cast

from platform_abc.errors import DeviceUnavailable
from platforms import common

if TYPE_CHECKING:
    import torch

Kind = Literal["cuda", "hip", "xpu"]
"""Whose device is meant; a torch built for ROCm calls its own `torch.cuda` too."""


class Properties(Protocol):
    """What torch says of a device, as far as it is used; a build or device may lack single ones."""

    name: str
    total_memory: int


class Runtime(Protocol):
    """The functions of `torch.cuda` and `torch.xpu` that are used here, under their names."""

    def is_available(self) -> bool: ...
    def is_initialized(self) -> bool: ...
    def device_count(self) -> int: ...
    def current_device(self) -> int: ...
    def get_device_properties(self, device: int, /) -> Properties: ...
    def get_device_capability(self, device: int, /) -> tuple[int, int]: ...
    def mem_get_info(self, device: int, /) -> tuple[int, int]: ...
    def set_device(self, device: torch.device, /) -> None: ...


def runtime(kind: Kind, member: str, platform: str, remedy: str) -> Runtime:
    """Return `torch.cuda` or `torch.xpu` if it has a device of that kind.

    Args:
        kind: whose.
        member: the hook that asks, for the error.
        platform: the class that asks, for the error.
        remedy: what makes a device appear.

    Raises:
        DeviceUnavailable: torch is not installed, was built for something else, or sees no device.
    """
    try:
        import torch
    except ImportError as error:
        raise DeviceUnavailable(member, platform, f"install torch; {remedy}") from error
    found = cast("Runtime | None", getattr(torch, "xpu" if kind == "xpu" else "cuda", None))
    built_for_it = kind == "xpu" or (torch.version.hip is not None) == (kind == "hip")
    if found is None or not built_for_it or not found.is_available():
        raise DeviceUnavailable(member, platform, remedy)
    return found


def seed_all(kind: Kind, seed: int) -> None:
    """Seed the generators of all visible devices; those that are not started yet are seeded then.

    Args:
        kind: whose.
        seed: any integer that fits 64 bits.
    """
    import torch

    if kind == "xpu":
        torch.xpu.manual_seed_all(seed)
    else:
        torch.cuda.manual_seed_all(seed)


def properties(
    kind: Kind, device_id: int, member: str, platform: str, remedy: str, *variables: str
) -> Properties:
    """Return torch's properties of a device.

    Args:
        kind: whose.
        device_id: visible id.
        member: the hook that asks.
        platform: the class that asks.
        remedy: what makes a device appear.
        variables: what may hide devices, for the error.

    Raises:
        DeviceUnavailable: there is no device at all.
        IndexError: there are devices, but not so many.
    """
    found = runtime(kind, member, platform, remedy)
    require_index(device_id, found.device_count(), *variables)
    return found.get_device_properties(device_id)


def device_index(device: torch.types.Device, kind: Kind) -> int:
    """Return the visible index that a device argument of torch stands for, without creating a context.

    Args:
        device: a `torch.device`, a text such as `"cuda:1"`, a number, or None.
        kind: whose device is meant.

    Returns:
        The index; where the argument names none that of the current device, 0 until one was set.

    Raises:
        ValueError: the text is none that torch takes, or the device is of another type.
    """
    name = "xpu" if kind == "xpu" else "cuda"
    index = common.device_index(device, name)
    if index is not None:
        return index
    torch = sys.modules.get("torch")
    found = cast("Runtime | None", getattr(torch, name, None))
    return found.current_device() if found is not None and found.is_initialized() else 0


def require_index(device_id: int, count: int, *variables: str) -> None:
    """Refuse an id that no visible device has.

    Args:
        device_id: visible id.
        count: number of visible devices.
        variables: what may hide devices; those that are set are named.

    Raises:
        IndexError: naming both numbers.
    """
    if not 0 <= device_id < count:
        raise IndexError(
            f"device {device_id} does not exist: {count} are visible, numbered from 0{_settings(variables)}"
        )


def require_physical(device_id: int, count: int, *variables: str) -> None:
    """Refuse a physical id that the machine does not have.

    Args:
        device_id: physical id.
        count: number of devices of the machine.
        variables: what the id may come from.

    Raises:
        ValueError: one of the variables is set, and named with its value.
        IndexError: none is.
    """
    if 0 <= device_id < count:
        return
    settings = _settings(variables)
    text = f"device {device_id} does not exist: this machine has {count}, numbered from 0{settings}"
    raise ValueError(text) if settings else IndexError(text)


def _settings(variables: tuple[str, ...]) -> str:
    """Return ` (NAME='value', …)` of the variables that are set; empty if none is."""
    shown = [f"{name}={os.environ[name]!r}" for name in variables if os.environ.get(name, "").strip()]
    return f" ({', '.join(shown)})" if shown else ""


def pci_bus_id(of: Properties) -> str | None:
    """Return the PCI address `domain:bus:device.0`; None if this build of torch does not say."""
    parts = [getattr(of, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    if not all(isinstance(part, int) for part in parts):
        return None
    domain, bus, device = cast("list[int]", parts)
    return f"{domain:08X}:{bus:02X}:{device:02X}.0"
