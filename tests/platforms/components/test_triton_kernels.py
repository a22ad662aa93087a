"""Facts of the Triton kernels and what starts them: every case of `kernel_cases`, in Triton's interpreter."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
import torch

from platform_abc.errors import MissingDependency
from platforms.components import core_kernels, paged_triton, torch_kernels, triton_launch
from tests.platforms.components.kernel_cases import CASES

ROOT = Path(__file__).parents[3]


@functools.cache
def interpreted() -> dict[str, str]:
    """Run all cases in one child, whose kernels are Python on the host; return what went wrong, by case."""
    pytest.importorskip("triton")
    pytest.importorskip("numpy")
    child = subprocess.run(
        [sys.executable, "-m", "tests.platforms.components.interpreted"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    found: dict[str, str] = json.loads(child.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_computes_what_torch_does(name: str) -> None:
    """In its interpreter, on odd shapes, strides, paddings and dtypes."""
    error = interpreted()[name]
    assert not error, error


def test_without_triton_a_kernel_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the extra; importing the module that starts kernels needs none."""
    triton_launch.kernel.cache_clear()
    monkeypatch.setattr(triton_launch, "is_installed", lambda _name: False)
    with pytest.raises(MissingDependency, match=r"rms_norm without platform-abc\[triton\]"):
        core_kernels.rms_norm(torch.ones(1, 4), torch.ones(4), 1e-6)


@pytest.mark.parametrize(
    ("number", "least", "answer"), [(1, 1, 1), (2, 1, 2), (3, 1, 4), (80, 16, 128), (5, 16, 16)]
)
def test_sizes_of_blocks_are_powers_of_two(number: int, least: int, answer: int) -> None:
    """The next one that is not below either number."""
    assert triton_launch.power_of_two(number, at_least=least) == answer


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    """An odd width has no halves, and angles are those of the heads."""
    with pytest.raises(ValueError, match=r"two halves, got the shape \(2, 3\)"):
        core_kernels.silu_and_mul(torch.ones(2, 3))
    with pytest.raises(ValueError, match="2 \\* half <= D"):
        core_kernels.rotary_embedding(torch.ones(2, 1, 4), torch.ones(2, 3), torch.ones(2, 3))
    for kernels in (core_kernels, torch_kernels):
        with pytest.raises(ValueError, match=r"weights \[4\], got \(3,\)"):
            kernels.rms_norm(torch.ones(2, 4), torch.ones(3), 1e-6)
        with pytest.raises(ValueError, match=r"a cache \[2, N, B, K, D\], got \(2, 1, 4\)"):
            kernels.write_cache(*[torch.ones(2, 1, 4)] * 2, torch.ones(2, 3, 4, 1, 5), torch.arange(2))
        with pytest.raises(ValueError, match="each of 2 requests, got 1"):
            kernels.slot_mapping(torch.tensor([0, 1, 2]), *[torch.ones(1, 1)] * 2, 4, torch.ones(2))
    with pytest.raises(ValueError, match=r"expected queries and output .* got \(3, 2, 8\), \(3, 2, 7\)"):
        paged_triton.attend(
            torch.ones(3, 2, 8),
            torch.ones(2, 1, 4, 1, 8),
            torch.zeros(1, 1),
            torch.tensor([0, 3]),
            torch.tensor([3]),
            torch.ones(3, 2, 7),
            scale=1.0,
            max_query_len=3,
        )


@pytest.mark.deep
@pytest.mark.parametrize(("backend", "arch", "warp"), [("cuda", 90, 32), ("hip", "gfx942", 64)])
def test_attention_compiles_for_devices_that_are_not_here(backend: str, arch: int | str, warp: int) -> None:
    """Down to machine code, within the memory that a program has on the chip."""
    pytest.importorskip("triton")
    code = f"""
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from platforms.components.triton_kernels.attention import paged_attention as fn
shape = dict(
    BLOCK_SIZE=16, HEAD_SIZE=80, PADDED_HEAD=128, SHARED_BY=4, QUERY_TILE=16, ROWS=64, KEY_TILE=64,
    CAUSAL=True, WINDOWED=True, WIDE=False,
)
types = dict.fromkeys(fn.arg_names, "i32") | dict.fromkeys(shape, "constexpr")
types |= dict.fromkeys(["out", "query", "keys", "values"], "*bf16") | {{"scale": "fp32"}}
types |= dict.fromkeys(["table", "query_starts", "seq_lens"], "*i32")
source = ASTSource(fn, types, {{(fn.arg_names.index(name),): value for name, value in shape.items()}})
made = compile(source, target=GPUTarget({backend!r}, {arch!r}, {warp}))
print(made.metadata.shared)
"""
    child = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    assert 0 < int(child.stdout) <= 64 * 1024
