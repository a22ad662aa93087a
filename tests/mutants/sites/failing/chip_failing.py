"""A platform package whose general plugin raises before it has made the device known to torch."""

from __future__ import annotations

from types import ModuleType

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_failing.Failing"


def register() -> None:
    """Ask for the firmware, then make this module the run time of the device."""
    import torch

    firmware: dict[str, ModuleType] = {}
    torch._register_device_module("privateuseone", firmware["chip-9"])


class Failing(Good):
    """The platform that the detector names."""

    device_type = "privateuseone"
    dispatch_key = "PrivateUse1"
