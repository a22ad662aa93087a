"""Attention over a paged key/value cache by the Triton kernel, on plain tensors.

Shapes use these letters: `T` tokens of the batch, `R` requests, `Q` query heads, `K` key/value heads (`Q` is a
multiple of `K`), `D` head size, `N` blocks of the cache, `B` tokens in one block, `M` blocks of the longest
request. Nothing is copied to the host, so a step can be captured in a device graph.
"""

from __future__ import annotations

from typing import Final

import torch

from platforms.components.torch_kernels import KEY, VALUE
from platforms.components.triton_launch import ceiling, kernel, power_of_two
from platforms.triton_state import interpreted

_FEWEST: Final = 16
"""Smallest side of a matrix that the units for matrices take."""

_TILE_BYTES: Final = 16 * 1024
"""Bound of the keys of one tile; with the values, twice for loading ahead, 64 KiB stay on the chip."""

_WIDE_ROW: Final = 512
"""Bytes of a head from which on a program that has many rows would not fit the chip."""


def attend(
    query: torch.Tensor,
    cache: torch.Tensor,
    block_table: torch.Tensor,
    query_starts: torch.Tensor,
    seq_lens: torch.Tensor,
    out: torch.Tensor,
    *,
    scale: float,
    max_query_len: int,
    causal: bool = True,
    window: int | None = None,
) -> None:
    """Attend from each request's new tokens to all its tokens in the cache.

    The new tokens are the last ones of their request and are in the cache already.

    Args:
        query: `[T, Q, D]`, the new tokens of all requests, one request after the other; any strides.
        cache: `[2, N, B, K, D]`, any strides; another dtype than the queries' is converted.
        block_table: integers `[R, M]`; entries of blocks that no new token sees are not read.
        query_starts: integers `[R + 1]`, where each request's new tokens start in `query`.
        seq_lens: integers `[R]`, tokens of each request with the new ones; 0 is a padding request, whose
            output is zero.
        out: `[T, Q, D]`, receives the result; any strides.
        scale: factor of the scores.
        max_query_len: most new tokens of one request, or more.
        causal: a token sees itself and earlier tokens only; else all of its request.
        window: a token sees at most this many tokens, itself included; None for all.
    """
    keys, values = cache[KEY], cache[VALUE]
    block_size, kv_heads, head_size = keys.shape[1:]
    requests = seq_lens.shape[0]
    shared_by = query.shape[1] // kv_heads
    padded = power_of_two(head_size, at_least=_FEWEST)
    # The interpreter multiplies the bits of bfloat16 as if they were integers.
    wide = query.dtype is torch.float32 or (query.dtype is torch.bfloat16 and interpreted())
    row_bytes = padded * (4 if wide else 2)
    # A step of single tokens has few rows for a key head; a prompt fills larger tiles.
    few = max_query_len == 1 or row_bytes > _WIDE_ROW
    rows = power_of_two(shared_by, at_least=_FEWEST if few else 4 * _FEWEST)
    query_tile = rows // shared_by
    tiles = ceiling(max_query_len, query_tile)
    if query.numel() == 0 or requests == 0 or tiles == 0:
        return
    if block_table.stride(1) != 1:
        block_table = block_table.contiguous()
    kernel("attention", "paged_attention")[(tiles, requests, kv_heads)](
        out,
        query,
        keys,
        values,
        block_table,
        query_starts,
        seq_lens,
        scale,
        window or 0,
        *out.stride(),
        *query.stride(),
        *keys.stride(),
        *values.stride(),
        block_table.stride(0),
        BLOCK_SIZE=block_size,
        HEAD_SIZE=head_size,
        PADDED_HEAD=padded,
        SHARED_BY=shared_by,
        QUERY_TILE=query_tile,
        ROWS=rows,
        KEY_TILE=max(_FEWEST, min(64, _TILE_BYTES // row_bytes)),
        CAUSAL=causal,
        WINDOWED=window is not None,
        WIDE=wide,
    )
