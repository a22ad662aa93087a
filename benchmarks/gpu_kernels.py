"""The compiled Triton kernels beside torch's own on one GPU: `python -m benchmarks.gpu_kernels --json FILE`.

Each row is a kernel on one shape: its time, the bandwidth or the FLOP rate that follows from what must be moved
or computed, and the same for what torch offers. Without a GPU the file says that nothing was run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import attrs
import torch
from torch.nn import functional

from platform_abc.components.lora import LoRAMapping
from platforms.components import core_kernels, paged_sdpa, paged_triton
from platforms.components.lora_torch import TorchPunicaWrapper
from platforms.components.lora_triton import TritonPunicaWrapper
from platforms.triton_state import triton_state

WARM: Final = 10
"""Runs before the first that counts."""

COUNTED: Final = 50
"""Runs that are timed, each alone; their median counts."""

DTYPE: Final = torch.bfloat16


@attrs.frozen(kw_only=True)
class Row:
    """One kernel on one shape.

    Args:
        kernel: its name.
        shape: of what, in words.
        triton_us: microseconds of ours.
        torch_us: microseconds of torch's.
        unit: `GB/s` or `TFLOP/s`.
        triton_rate: of ours.
        torch_rate: of torch's.
    """

    kernel: str
    shape: str
    triton_us: float
    torch_us: float
    unit: str
    triton_rate: float
    torch_rate: float


def microseconds(run: Callable[[], object]) -> float:
    """Return the median time of a call on the device.

    Args:
        run: the call.
    """
    for _ in range(WARM):
        run()
    times: list[float] = []
    for _ in range(COUNTED):
        # torch's own annotation of events is partly missing.
        begin, end = (cast("Any", torch.cuda.Event)(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


def row(
    kernel: str,
    shape: str,
    ours: Callable[[], object],
    torchs: Callable[[], object],
    *,
    moved: float = 0.0,
    computed: float = 0.0,
) -> Row:
    """Time a kernel and torch's counterpart.

    Args:
        kernel: its name.
        shape: in words.
        ours: starts ours.
        torchs: starts torch's.
        moved: bytes that must be moved.
        computed: floating-point operations, where those are the limit.
    """
    first, second = microseconds(ours), microseconds(torchs)
    unit, amount = ("TFLOP/s", computed / 1e6) if computed else ("GB/s", moved / 1e3)
    return Row(
        kernel=kernel,
        shape=shape,
        triton_us=round(first, 2),
        torch_us=round(second, 2),
        unit=unit,
        triton_rate=round(amount / first, 2),
        torch_rate=round(amount / second, 2),
    )


def layers(device: torch.device, steps: Sequence[int] = (1, 64, 4096)) -> list[Row]:
    """Measure norm, gated activation and rotary positions.

    Args:
        device: the GPU.
        steps: tokens of each step.
    """
    rows: list[Row] = []
    for tokens in steps:
        x = torch.randn(tokens, 4096, dtype=DTYPE, device=device)
        weight = torch.randn(4096, dtype=DTYPE, device=device)
        gates = torch.randn(tokens, 2 * 14336, dtype=DTYPE, device=device)
        heads, cos = x.view(tokens, 32, 128), torch.randn(tokens, 64, device=device)
        size = x.numel() * x.itemsize
        rows += [
            row(
                "rms_norm",
                f"{tokens} x 4096 bfloat16",
                partial(core_kernels.rms_norm, x, weight, 1e-6),
                partial(functional.rms_norm, x, (4096,), weight, 1e-6),
                moved=2 * size,
            ),
            row(
                "silu_and_mul",
                f"{tokens} x 2 * 14336 bfloat16",
                partial(core_kernels.silu_and_mul, gates),
                partial(_gated, gates),
                moved=1.5 * gates.numel() * gates.itemsize,
            ),
            row(
                "rotary_embedding",
                f"{tokens} x 32 x 128 bfloat16",
                partial(core_kernels.rotary_embedding, heads, cos, cos),
                partial(_turned, heads, cos),
                moved=2 * size + 2 * cos.numel() * cos.itemsize,
            ),
        ]
    return rows


def _gated(gates: torch.Tensor) -> torch.Tensor:
    width = gates.shape[-1] // 2
    return functional.silu(gates[:, :width]) * gates[:, width:]


def _turned(heads: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
    first, second = heads[..., :64], heads[..., 64:]
    c = cos.unsqueeze(1)
    return torch.cat((first * c - second * c, second * c + first * c), -1).to(heads.dtype)


def attention(
    device: torch.device,
    batches: Sequence[tuple[int, int, int]] = ((1, 1, 4096), (64, 1, 1024), (8, 1024, 1024), (1, 8192, 8192)),
) -> list[Row]:
    """Measure the cache write, decode and prefill, 32 heads over 8 of size 128, blocks of 16.

    Args:
        device: the GPU.
        batches: requests, new tokens of each, and tokens of each in all.
    """
    rows: list[Row] = []
    for requests, new, length in batches:
        blocks = -(-length // 16)
        cache = torch.randn(2, requests * blocks, 16, 8, 128, dtype=DTYPE, device=device)
        order = torch.randperm(requests * blocks, device=device).view(requests, blocks)
        query = torch.randn(requests * new, 32, 128, dtype=DTYPE, device=device)
        key = torch.randn(requests * new, 8, 128, dtype=DTYPE, device=device)
        out, table = torch.empty_like(query), order.int()
        starts, lengths = list(range(0, requests * new + 1, new)), [length] * requests
        first, lens = (torch.tensor(each, dtype=torch.int32, device=device) for each in (starts, lengths))
        places = order.unsqueeze(2) * 16 + torch.arange(16, device=device)
        slots = places.view(requests, -1)[:, length - new : length].reshape(-1)
        named = f"{requests} requests of {new} new tokens, {length} in all, bfloat16"
        pairs = requests * (new * length - new * (new - 1) // 2)
        decodes = new == 1
        paged = partial(
            paged_triton.attend, query, cache, table, first, lens, out, scale=0.088, max_query_len=new
        )
        gathered = partial(
            paged_sdpa.attend,
            query,
            cache,
            table,
            starts,
            lengths,
            out,
            scale=0.088,
            plans=paged_sdpa.Plans(),
        )
        rows += [
            row(
                "write_cache",
                named,
                partial(core_kernels.write_cache, key, key, cache, slots),
                partial(paged_sdpa.write_cache, key, key, cache, slots, None),
                moved=4 * key.numel() * key.itemsize,
            ),
            row(
                "paged_attention",
                named,
                paged,
                gathered,
                moved=2 * requests * length * 8 * 128 * cache.itemsize if decodes else 0,
                computed=0 if decodes else 4 * pairs * 32 * 128,
            ),
        ]
    return rows


def adapters(device: torch.device, steps: Sequence[int] = (8, 1024)) -> list[Row]:
    """Measure a linear layer's adapters: rank 16, eight of them mixed.

    Args:
        device: the GPU.
        steps: tokens of each step.
    """
    rows: list[Row] = []
    lora_a = (torch.randn(8, 16, 4096, dtype=DTYPE, device=device),)
    lora_b = (torch.randn(8, 4096, 16, dtype=DTYPE, device=device),)
    for tokens in steps:
        numbers = [1 + token % 8 for token in range(tokens)]
        x, y = (torch.randn(tokens, 4096, dtype=DTYPE, device=device) for _ in range(2))
        runs: list[Callable[[], object]] = []
        for kind in (TritonPunicaWrapper, TorchPunicaWrapper):
            wrapper = kind(tokens, tokens, device, max_loras=8, can_update_inplace=True)
            mapping = LoRAMapping(index_mapping=numbers, prompt_mapping=[])
            wrapper.update_metadata(mapping, list(range(1, 9)), 8, 32000)
            runs.append(partial(wrapper.add_lora_linear, y, x, lora_a, lora_b, 1.0, (4096,)))
        computed = 2 * tokens * 16 * (4096 + 4096)
        rows.append(row("lora_linear", f"{tokens} tokens, 8 adapters, rank 16", *runs, computed=computed))
    return rows


def report() -> dict[str, Any]:
    """Return what was measured and on what; without a GPU, that nothing was."""
    state = triton_state("cuda" if torch.version.hip is None else "hip")
    about = {"torch": torch.__version__, "triton": state.why}
    if not torch.cuda.is_available():
        return {"schema": 1, "status": "not run: no GPU", "environment": about, "rows": []}
    if not state.usable or state.interpreted:
        return {"schema": 1, "status": f"not run: {state.why}", "environment": about, "rows": []}
    device = torch.device("cuda")
    about["device"] = torch.cuda.get_device_name()
    rows = [*layers(device), *attention(device), *adapters(device)]
    return {"schema": 1, "status": "run", "environment": about, "rows": [attrs.asdict(one) for one in rows]}


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_kernels", description=__doc__)
    parser.add_argument("--json", type=Path, help="the file to write (default: standard output)")
    asked = parser.parse_args()
    text = json.dumps(report(), indent=2) + "\n"
    if asked.json is None:
        sys.stdout.write(text)
    else:
        asked.json.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
