"""A platform package with a detector that is right: the twin of the other packages here."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_steady.Steady"


class Steady(Good):
    """The platform that the detector names."""
