"""A platform package that replaces a function of torch when its detector is imported."""

from __future__ import annotations

import torch

from tests.mutants.good import Good

_empty = torch.empty_like


def _empty_like(*args: object, **kwargs: object) -> torch.Tensor:
    return _empty(*args, **kwargs)  # type: ignore[arg-type]


torch.empty_like = _empty_like  # type: ignore[assignment]


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_patching.Patching"


class Patching(Good):
    """The platform that the detector names."""
