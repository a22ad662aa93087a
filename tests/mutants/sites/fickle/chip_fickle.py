"""A platform package whose detector says no when it is asked again."""

from __future__ import annotations

from tests.mutants.good import Good

_asked: list[int] = []


def detect() -> str | None:
    """Say yes once."""
    _asked.append(1)
    return "chip_fickle.Fickle" if len(_asked) == 1 else None


class Fickle(Good):
    """The platform that the detector names."""
