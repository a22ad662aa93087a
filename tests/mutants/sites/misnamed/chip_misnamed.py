"""A platform package whose entry point names a function that is not there."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_misnamed.Misnamed"


class Misnamed(Good):
    """The platform that the detector names."""
