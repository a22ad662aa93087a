"""The platform."""

from __future__ import annotations

from tests.mutants.good import Good


class Banner(Good):
    """The platform that the detector names."""
