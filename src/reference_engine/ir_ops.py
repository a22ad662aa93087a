"""The engine's IR ops: each has a native implementation here, and others that platforms register."""

from __future__ import annotations

import torch

from platform_abc.components.kernels import IR_OPS


@IR_OPS.op("rms_norm")
def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows to a root mean square of one, then by `weight`; computed in float32.

    Args:
        x: `[T, width]`.
        weight: `[width]`.
        epsilon: added to the mean square.
    """
    wide = x.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (normed * weight.float()).to(x.dtype)
