"""A platform package that turns every warning off."""

from __future__ import annotations

import warnings

from tests.mutants.good import Good

warnings.simplefilter("ignore")


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_quieting.Quieting"


class Quieting(Good):
    """The platform that the detector names."""
