"""What the model computes between its matrices: IR ops with a native implementation here, and core kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch

from platform_abc.components.kernels import IR_OPS, KERNELS
from platforms.components import ir_kernels, torch_kernels


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


def core_kernel(name: str, device: torch.device) -> Callable[..., torch.Tensor]:
    """Return what the platform has registered over a core kernel; else the kernel, in torch where Triton cannot run.

    Args:
        name: `silu_and_mul` or `rotary_embedding`; see `platforms.components.core_kernels` for arguments.
        device: where it runs.
    """
    if name in KERNELS.overridden() or ir_kernels.runs_on(device):
        return KERNELS.get(name)
    return torch_kernels.FUNCTIONS[name]
