"""A platform package whose detector counts devices by opening the runtime."""

from __future__ import annotations

import contextlib

import torch

from tests.mutants.good import Good


def detect() -> str | None:
    """Count them."""
    with contextlib.suppress(Exception):
        torch.cuda.init()
    return "chip_opening.Opening"


class Opening(Good):
    """The platform that the detector names."""
