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
VARIABLES: Final = (HIP, CUDA, ROCR)


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
    name = variable()
    outer = device_ids.visible_to_physical(visible, variable=name, convert=_number(name))
    try:
        return device_ids.visible_to_physical(outer, variable=ROCR, convert=_number(ROCR))
    except IndexError as error:
        if device_ids.visible_entries(name) is None:
            raise
        raise ValueError(
            f"{name}={os.environ[name]!r} names device {outer} of those that {ROCR}={os.environ[ROCR]!r} "
            f"leaves, which are fewer; {name} counts from 0 within them"
        ) from error


def count(all_devices: int) -> int:
    """Return how many devices are visible.

    As for HIP, an entry beyond the devices that there are hides itself and all after it.

    Args:
        all_devices: how many the machine has.

    Raises:
        ValueError: a variable is malformed.
    """
    left = all_devices
    for name in (ROCR, variable()):
        entries = device_ids.visible_entries(name)
        if entries is not None:
            beyond = (i for i, entry in enumerate(entries) if entry.isdecimal() and int(entry) >= left)
            left = next(beyond, len(entries))
    return left


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
