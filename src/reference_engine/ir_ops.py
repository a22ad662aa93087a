"""The engine's IR ops: each has a native implementation here, and others that platforms register."""

from __future__ import annotations

import torch

from platform_abc.components.kernels import IR_OPS


@IR_OPS.op("rms_norm")
def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows to a root mean square of one, then by `weight`; computed in float32 at least.

    Args:
        x: `[T, width]`.
        weight: `[width]`.
        epsilon: added to the mean square.
    """
    wide = x.float() if x.dtype.itemsize < 4 else x
    normed = torch.nn.functional.rms_norm(wide, weight.shape, weight.to(wide.dtype), epsilon)
    return normed.to(x.dtype)


@IR_OPS.op("fused_add_rms_norm")
def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add two tensors and scale the rows of the sum; return these and the sum.

    Args:
        x: `[T, width]`.
        residual: what is added, and the same shape.
        weight: `[width]`.
        epsilon: added to the mean square.
    """
    added = x + residual
    normed: torch.Tensor = rms_norm(added, weight, epsilon)
    return normed, added
