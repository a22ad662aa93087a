"""The core kernels: what a step does between its matrices, in Triton, each known to the registry by its name.

Every function starts a kernel of `triton_kernels`; `torch_kernels` has the same functions for where Triton
cannot run, and `use_torch` registers them as overrides. Callers ask `KERNELS.get(name)`, so that a platform's
override is honoured. Shapes: `T` tokens, `R` requests, `K` key heads, `H` heads, `D` head size, `N` blocks of
`B` tokens, `M` blocks of the longest request.
"""

from __future__ import annotations

from typing import Final

import torch

from platform_abc.components.kernels import KERNELS
from platforms.components import torch_kernels
from platforms.components.triton_launch import ceiling, kernel, power_of_two

_WIDEST: Final = 4096
"""Most elements of a row that one program holds at once."""


@KERNELS.core("slot_mapping")
def slot_mapping(
    query_starts: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    out: torch.Tensor,
) -> None:
    """Compute the slot of each token of a step, and mark what follows them as padding.

    Args:
        query_starts: integers `[R + 1]`, where each request's tokens start, and where the last one's end.
        positions: integers `[T]` or longer, each token's place in its request.
        block_table: integers `[R, M]`, the blocks of each request in order.
        block_size: `B`.
        out: int64 `[T]` or longer, receives `block * B + offset`, and -1 from `T` on.
    """
    requests = query_starts.shape[0] - 1
    kernel("cache", "slot_mapping")[(requests + 1,)](
        out,
        query_starts,
        positions,
        block_table,
        requests,
        out.shape[0],
        block_table.stride(0),
        BLOCK_SIZE=block_size,
        TILE=256,
    )


@KERNELS.core("write_cache")
def write_cache(
    key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Store the keys and values of a step's tokens in their slots.

    Args:
        key: `[T, K, D]`; more rows than there are slots are padding.
        value: as `key`.
        cache: `[2, N, B, K, D]`, of any strides, changed in place; another dtype converts.
        slot_mapping: integers `[T]`, `block * B + offset`; a negative slot is padding.
    """
    tokens = min(slot_mapping.shape[0], key.shape[0])
    if tokens == 0:
        return
    keys, values = cache[torch_kernels.KEY], cache[torch_kernels.VALUE]
    kernel("cache", "write_cache")[(tokens,)](
        keys,
        values,
        key,
        value,
        slot_mapping.contiguous(),
        *keys.stride(),
        *values.stride(),
        *key.stride(),
        *value.stride(),
        BLOCK_SIZE=keys.shape[1],
        HEADS=keys.shape[2],
        HEAD_SIZE=keys.shape[3],
        TILE=min(1024, power_of_two(keys.shape[2] * keys.shape[3])),
    )


@KERNELS.core("rms_norm")
def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return rows scaled to a root mean square of one, then by `weight`.

    Args:
        x: `[…, width]`.
        weight: `[width]`.
        epsilon: added to the mean square.
    """
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    width = x.shape[-1]
    rows = x.reshape(-1, width)
    if out.numel():
        kernel("layers", "rms_norm")[(rows.shape[0],)](
            out,
            rows,
            weight.contiguous(),
            epsilon,
            width,
            *rows.stride(),
            WIDTH=width,
            TILE=min(_WIDEST, power_of_two(width)),
        )
    return out


@KERNELS.core("silu_and_mul")
def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """Return `silu(x[…, :width]) * x[…, width:]`.

    Args:
        x: `[…, 2 * width]`.

    Raises:
        ValueError: the last dimension has no two halves.
    """
    width = torch_kernels.half_of(x)
    out = torch.empty((*x.shape[:-1], width), dtype=x.dtype, device=x.device)
    rows = x.reshape(-1, 2 * width)
    if out.numel():
        tile = min(1024, power_of_two(width))
        kernel("layers", "silu_and_mul")[(rows.shape[0], ceiling(width, tile))](
            out, rows, width, *rows.stride(), WIDTH=width, TILE=tile
        )
    return out


@KERNELS.core("rotary_embedding")
def rotary_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return heads whose pairs `(i, i + half)` are rotated by each token's angles.

    Args:
        x: `[T, H, D]`.
        cos: `[T, half]`; elements of a head from `2 * half` on are not rotated.
        sin: as `cos`.

    Raises:
        ValueError: the shapes do not belong together.
    """
    torch_kernels.check_angles(x, cos, sin)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    cos, sin = cos.contiguous(), sin.contiguous()
    if out.numel():
        half = cos.shape[-1]
        kernel("layers", "rotary")[(x.shape[0], x.shape[1])](
            out,
            x,
            cos,
            sin,
            out.stride(0),
            out.stride(1),
            *x.stride(),
            half,
            HEAD_SIZE=x.shape[2],
            HALF=half,
            TILE=min(256, power_of_two(max(1, half))),
        )
    return out


def use_torch() -> None:
    """Override every core kernel by the function of the same name in `torch_kernels`."""
    for name in KERNELS.names():
        # An engine may have core kernels of its own, which are not ours to replace.
        replacement = torch_kernels.FUNCTIONS.get(name)
        if replacement is not None and KERNELS.get(name).__module__ == __name__:
            KERNELS.override(name, replacement)
