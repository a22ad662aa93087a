"""A platform package whose detector says no once torch is there."""

from __future__ import annotations

import sys

from tests.mutants.good import Good


def detect() -> str | None:
    """Say yes in a bare process."""
    return None if "torch" in sys.modules else "chip_torn.Torn"


class Torn(Good):
    """The platform that the detector names."""
