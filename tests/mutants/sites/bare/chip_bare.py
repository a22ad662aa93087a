"""A platform without an entry point; importing it replaces a function of torch."""

from __future__ import annotations

import torch

from tests.mutants.good import Good

_empty = torch.empty_like


def _empty_like(*args: object, **kwargs: object) -> torch.Tensor:
    return _empty(*args, **kwargs)  # type: ignore[arg-type]


torch.empty_like = _empty_like  # type: ignore[assignment]


class Bare(Good):
    """The platform."""
