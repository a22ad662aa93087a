"""A platform package whose detector raises where the driver is absent."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Ask a driver that is not there."""
    raise OSError("libchip.so: cannot open shared object file")


class Raises(Good):
    """The platform that the detector names."""
