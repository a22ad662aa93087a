"""A platform package whose wheel lacks a module that the detector imports."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Count the devices."""
    from chip_unpackaged_device import count

    return "chip_unpackaged.Unpackaged" if count() else None


class Unpackaged(Good):
    """The platform that the detector names."""
