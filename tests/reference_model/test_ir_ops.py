"""Facts about IR ops."""

from __future__ import annotations

import torch

from platform_abc.components.kernels import IR_OPS
from reference_model.ir_ops import fused_add_rms_norm, rms_norm


def test_rms_norm_has_rows_of_mean_square_one_and_follows_the_priority() -> None:
    """The native op is right, and another implementation is used when it is put first."""
    x = torch.randn(5, 16, dtype=torch.bfloat16) * 7
    normed = rms_norm(x, torch.ones(16), 0.0)
    assert normed.dtype is torch.bfloat16
    assert torch.allclose(normed.float().pow(2).mean(-1), torch.ones(5), atol=2e-2)
    rms_norm.register_impl("test-zero")(_zero)
    with IR_OPS.ops["rms_norm"].with_priority(["test-zero"]):
        assert rms_norm(x, torch.ones(16), 0.0).abs().sum() == 0
        assert fused_add_rms_norm(x, x, torch.ones(16), 0.0)[0].abs().sum() == 0
    del rms_norm.impls["test-zero"]


def test_adding_and_norming_in_one_is_both() -> None:
    """The sum comes back too; epsilon and weight count."""
    x, residual, weight = (torch.randn(shape, dtype=torch.float64) for shape in ((3, 8), (3, 8), (8,)))
    normed, added = fused_add_rms_norm(x, residual, weight, 0.5)
    assert torch.equal(added, x + residual)
    expected = added / (added.pow(2).mean(-1, keepdim=True) + 0.5).sqrt() * weight
    assert torch.allclose(normed, expected)


def _zero(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return torch.zeros_like(x)
