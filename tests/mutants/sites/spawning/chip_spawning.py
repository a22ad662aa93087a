"""A platform package that chooses how the whole process starts others."""

from __future__ import annotations

import multiprocessing

from tests.mutants.good import Good


def detect() -> str | None:
    """Choose it, and say that the chip is here."""
    multiprocessing.set_start_method("spawn", force=True)
    return "chip_spawning.Spawning"


class Spawning(Good):
    """The platform that the detector names."""
