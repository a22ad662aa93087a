"""The platform."""

from __future__ import annotations

from tests.mutants.good import Good


class Odd(Good):
    """The platform that the detector names."""
