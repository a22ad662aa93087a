"""A platform package whose detector says no once transformers is there."""

from __future__ import annotations

import sys

from tests.mutants.good import Good


def detect() -> str | None:
    """Say yes in a bare process."""
    return None if "transformers" in sys.modules else "chip_crowded.Crowded"


class Crowded(Good):
    """The platform that the detector names."""
