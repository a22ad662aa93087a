"""Facts of the compiled Triton kernels: every case of `kernel_cases` on a GPU; skipped where there is none."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
import torch

from tests.platforms.components.kernel_cases import CASES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_kernel_computes_what_torch_does(name: str) -> None:
    """On odd shapes, strides, paddings and dtypes."""
    pytest.importorskip("triton")
    CASES[name](torch.device("cuda"))
