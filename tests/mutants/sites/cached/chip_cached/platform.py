"""The platform; a cache of kernels for the device's name is made with the module."""

from __future__ import annotations

import torch

from tests.mutants.good import Good


def _name() -> str:
    try:
        return torch.cuda.get_device_name(0)
    except Exception:
        return "unknown"


KERNELS: dict[str, object] = {_name(): None}


class Cached(Good):
    """The platform that the detector names."""
