"""A platform package that sets a variable of the engine although its chip is not here."""

from __future__ import annotations

import os

from tests.mutants.good import Good


def detect() -> str | None:
    """Set it, and say that the chip is not here."""
    os.environ.setdefault("PLATFORM_ABC_LOGGING_LEVEL", "ERROR")
    return None


class Meddling(Good):
    """The platform that the detector names."""
