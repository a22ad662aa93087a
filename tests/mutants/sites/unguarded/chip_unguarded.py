"""A platform package whose detector imports the vendor's library without a guard."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Count the devices."""
    import unguarded_driver

    return "chip_unguarded.Unguarded" if unguarded_driver.count() else None


class Unguarded(Good):
    """The platform that the detector names."""
