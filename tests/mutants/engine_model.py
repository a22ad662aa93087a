"""Platforms whose parts are right by themselves, and on which the engine generates something else than its model."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.mutants.device_work import Grouped
from tests.mutants.engine import Named


class DoublesNorms(Named):
    """Has a worker that takes weights of norms for those of another family, which are stored less 1."""

    worker = "DoublesNorms"


class SmallBlocks(Named):
    """Has a worker that goes wrong with any but the usual block size."""

    worker = "SmallBlocks"


class OneRank(Named, Grouped):
    """Has a worker that goes wrong on more than one rank."""

    worker = "OneRank"


class TwoRanks(Named, Grouped):
    """Has a worker that runs on any number of ranks, which is right."""

    worker = "Steady"


class NeverReleased(Named):
    """Counts requests as open, sixteen at most, and never takes one off the list."""

    worker = "Steady"
    _open: ClassVar[list[str]] = []

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Refuse the seventeenth."""
        if len(cls._open) >= 16:
            raise ValueError("too many requests are open on this chip")
        cls._open.append(type(params).__name__)
