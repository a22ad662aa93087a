"""Which devices a ROCm process sees: three variables, one after the other.

`ROCR_VISIBLE_DEVICES` hides devices from the driver's run time and numbers the rest anew;
`HIP_VISIBLE_DEVICES`, or `CUDA_VISIBLE_DEVICES` in its place, then does the same with that rest. amdsmi
knows none of them.
"""

from __future__ import annotations

import os
from typing import Final

from platform_abc import device_ids

HIP: Final = "HIP_VISIBLE_DEVICES"
CUDA: Final = "CUDA_VISIBLE_DEVICES"
ROCR: Final = "ROCR_VISIBLE_DEVICES"


def variable() -> str:
    """Return the name of the variable that decides: HIP's where it is set, else CUDA's.

    Raises:
        ValueError: both are set, to different devices.
    """
    hip, cuda = (device_ids.visible_entries(name) for name in (HIP, CUDA))
    if hip is not None and cuda is not None and hip != cuda:
        raise ValueError(
            f"{HIP}={os.environ[HIP]!r} and {CUDA}={os.environ[CUDA]!r} contradict each other: set one of "
            "them, or both to the same devices"
        )
    return HIP if hip is not None else CUDA


def physical(visible: int) -> int:
    """Return the number that amdsmi gives a visible device.

    Args:
        visible: the number in `torch.device("cuda:N")`.

    Raises:
        IndexError: a variable makes fewer devices visible.
        ValueError: a variable is malformed, or holds an identifier instead of numbers.
    """
    outer = device_ids.visible_to_physical(visible, variable=variable(), convert=_number(variable()))
    return device_ids.visible_to_physical(outer, variable=ROCR, convert=_number(ROCR))


def count(all_devices: int) -> int:
    """Return how many devices are visible.

    Args:
        all_devices: how many the machine has.

    Raises:
        ValueError: a variable is malformed.
    """
    for name in (variable(), ROCR):
        entries = device_ids.visible_entries(name)
        if entries is not None:
            return len(entries)
    return all_devices


def _number(name: str) -> device_ids.Convert:
    return lambda entry: device_ids.entry_to_physical(entry, variable=name, device_name="rocm")


def visible(wanted: int) -> int:
    """Return the visible number of a device that amdsmi numbers `wanted`.

    Args:
        wanted: the physical number.

    Raises:
        ValueError: a variable hides the device, or is malformed.
    """
    inner = device_ids.physical_to_visible(wanted, variable=ROCR, convert=_number(ROCR))
    return device_ids.physical_to_visible(inner, variable=variable(), convert=_number(variable()))
