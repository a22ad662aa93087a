"""Facts of `benchmarks.gpu_kernels`: without a GPU it says so, and what it would time computes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
import torch

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not outside the tree", allow_module_level=True)

_SMALL = """
import json, torch
from benchmarks import gpu_kernels as made
made.microseconds = lambda run: run() is not made and 2.0
host = torch.device("cpu")
rows = [*made.layers(host, [2]), *made.attention(host, [(2, 1, 20), (1, 9, 20)]), *made.adapters(host, [3])]
print(json.dumps([[row.kernel, row.unit, row.triton_rate] for row in rows]))
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_that_nothing_was_run(tmp_path: Path) -> None:
    """The file is written all the same, without rows."""
    target = tmp_path / "gpu.json"
    subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_kernels", "--json", str(target)], cwd=ROOT, check=True
    )
    written = json.loads(target.read_text())
    assert written["status"] == "not run: no GPU"
    assert written["rows"] == []


def test_what_would_be_timed_runs() -> None:
    """Each kernel and its counterpart, on small shapes in Triton's interpreter; rates follow from the times."""
    pytest.importorskip("triton")
    pytest.importorskip("numpy")
    child = subprocess.run(
        [sys.executable, "-c", _SMALL],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    found = {(kernel, unit): rate for kernel, unit, rate in json.loads(child.stdout)}
    assert set(found) == {
        ("rms_norm", "GB/s"),
        ("silu_and_mul", "GB/s"),
        ("rotary_embedding", "GB/s"),
        ("write_cache", "GB/s"),
        ("paged_attention", "GB/s"),
        ("paged_attention", "TFLOP/s"),
        ("lora_linear", "TFLOP/s"),
    }
    assert found["rms_norm", "GB/s"] == round(2 * 2 * 4096 * 2 / 2.0 / 1e3, 2)
