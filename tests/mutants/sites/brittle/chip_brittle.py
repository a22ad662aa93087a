"""A platform package whose detector guards its library against its absence alone."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Count the devices, if the library is installed."""
    try:
        import brittle_driver
    except ImportError:
        return None
    return "chip_brittle.Brittle" if brittle_driver.count() else None


class Brittle(Good):
    """The platform that the detector names."""
