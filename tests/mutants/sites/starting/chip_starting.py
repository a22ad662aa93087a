"""A platform package whose general plugin starts the run time of the device."""

from __future__ import annotations

import sys

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_starting.Starting"


_STARTED: list[int] = []


def register() -> None:
    """Make this module the run time of the device, and start that."""
    import torch

    if not hasattr(torch, "privateuseone"):
        torch._register_device_module("privateuseone", sys.modules[__name__])
    _STARTED.append(device_count())


def is_available() -> bool:
    """Say that there is one."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def is_initialized() -> bool:
    """Say whether it has been started."""
    return bool(_STARTED)


class Starting(Good):
    """The platform that the detector names."""

    device_type = "privateuseone"
    dispatch_key = "PrivateUse1"
