"""A platform package with two entry points that both say yes."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_double.Double"


class Double(Good):
    """The platform that the detector names."""
