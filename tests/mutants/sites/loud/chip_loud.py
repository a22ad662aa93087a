"""A platform package whose detector turns the engine's logging off."""

from __future__ import annotations

import logging

from tests.mutants.good import Good


def detect() -> str | None:
    """Turn it off, and say that the chip is here."""
    logging.getLogger("platform_abc").setLevel(logging.CRITICAL)
    return "chip_loud.Loud"


class Loud(Good):
    """The platform that the detector names."""
