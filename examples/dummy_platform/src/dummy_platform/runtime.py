"""The device's run time as torch sees it: the module `torch.privateuseone`.

A real vendor's run time is a compiled torch extension, which registers such a module as well. The platform
answers every name that it does not define from here: `current_platform.synchronize` is `synchronize` below.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dummy_platform import devices

if TYPE_CHECKING:
    from torch.types import Device

_current = 0


def register() -> None:
    """Make this module `torch.privateuseone`; a second call changes nothing."""
    import torch

    module: Any = sys.modules[__name__]
    if not hasattr(torch, "privateuseone"):
        torch._register_device_module("privateuseone", module)  # type: ignore[no-untyped-call]


def is_available() -> bool:
    """Say whether there is a device."""
    return devices.count() > 0


def device_count() -> int:
    """Return the number of devices."""
    return devices.count()


def current_device() -> int:
    """Return the index of the current device."""
    return _current


def set_device(device: Device) -> None:
    """Make a device the current one.

    Raises:
        RuntimeError: there is no such device.
    """
    global _current
    import torch

    index = device if isinstance(device, int) else torch.device(device or 0).index or 0
    if not 0 <= index < devices.count():
        raise RuntimeError(
            f"dummy device {index} does not exist: {devices.VARIABLE} allows {devices.count()}"
        )
    _current = index


def synchronize(device: Device = None) -> None:
    """Wait for the device, which has always finished."""


def empty_cache() -> None:
    """Give cached memory back; nothing is cached."""


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Return free and total memory of a device in bytes; the simulation does not count its use."""
    return devices.MEMORY_BYTES, devices.MEMORY_BYTES


def manual_seed_all(seed: int) -> None:
    """Seed all devices; they draw from the host's generator, which torch seeds itself."""


def _is_in_bad_fork() -> bool:
    """Say whether this process was forked after the device was started, which does it no harm."""
    return False
