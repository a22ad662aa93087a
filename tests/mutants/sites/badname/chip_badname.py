"""A platform package whose detector misspells the name of its class."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_badname.BadName"


class Badname(Good):
    """The platform that the detector names."""
