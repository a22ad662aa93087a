"""A platform package whose detector leaves a log file in the working directory."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.good import Good


def detect() -> str | None:
    """Write it, and say that the chip is here."""
    Path("chip.log").write_text("detected", encoding="utf-8")
    return "chip_writing.Writing"


class Writing(Good):
    """The platform that the detector names."""
