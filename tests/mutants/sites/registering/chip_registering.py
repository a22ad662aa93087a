"""A platform package whose general plugin makes the device known to torch: a right twin."""

from __future__ import annotations

import sys

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_registering.Registering"


def register() -> None:
    """Make this module the run time of the device, once."""
    import torch

    if not hasattr(torch, "privateuseone"):
        torch._register_device_module("privateuseone", sys.modules[__name__])


def is_available() -> bool:
    """Say that there is one."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def is_initialized() -> bool:
    """Say that nobody has started it."""
    return False


class Registering(Good):
    """The platform that the detector names."""

    device_type = "privateuseone"
    dispatch_key = "PrivateUse1"
