"""A platform package whose detector replaces a method of a class of torch."""

from __future__ import annotations

import torch

from tests.mutants.good import Good


def detect() -> str | None:
    """Replace it, and say that the chip is here."""
    torch.nn.Module.float = torch.nn.Module.half  # type: ignore[method-assign,assignment]
    return "chip_methodic.Methodic"


class Methodic(Good):
    """The platform that the detector names."""
