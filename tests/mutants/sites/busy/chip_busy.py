"""A platform package whose detector registers a quantization method with the engine."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Register it, and say that the chip is here."""
    import reference_model.quantization

    return "chip_busy.Busy" if reference_model.quantization.__name__ else None


class Busy(Good):
    """The platform that the detector names."""
