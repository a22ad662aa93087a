"""Implementations of the engine's IR ops in Triton, registered as `triton`."""

from __future__ import annotations

from typing import Final

import torch

from platform_abc.components.kernels import IR_OPS
from platforms.components import core_kernels
from platforms.triton_state import TritonKind, triton_state

PROVIDER: Final = "triton"
"""The name that a priority list uses."""


def takes(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> bool:
    """Say whether the kernel does a norm of these arguments.

    Args:
        x: `[…, width]`.
        weight: `[width]`.
        epsilon: not read.
    """
    del epsilon
    return (
        x.is_floating_point()
        and x.itemsize <= torch.float32.itemsize
        and weight.device == x.device
        and runs_on(x.device)
    )


def runs_on(device: torch.device) -> bool:
    """Say whether Triton's kernels run on a device."""
    kind: TritonKind = "xpu" if device.type == "xpu" else "cpu"
    if device.type == "cuda":
        kind = "cuda" if torch.version.hip is None else "hip"
    return triton_state(kind).usable


def register() -> None:
    """Add the implementations to the ops that the engine has; a second call changes nothing."""
    norm = IR_OPS.ops.get("rms_norm")
    if norm is not None:
        norm.register_impl(PROVIDER, supports=takes)(core_kernels.rms_norm)
