"""Attention over a paged key/value cache, by torch's scaled dot product attention.

Three functions on plain tensors, without state. Shapes use these letters: `T` tokens of the batch,
`R` requests, `Q` query heads, `K` key/value heads (`Q` is a multiple of `K`), `D` head size, `N`
blocks of the cache, `B` tokens in one block, `M` blocks of the longest request.
"""

from __future__ import annotations

from typing import Any, Final, cast

import torch
from torch.nn.functional import scaled_dot_product_attention

KEY, VALUE = 0, 1
"""Which half of the cache's first dimension holds what."""

_DECODE_BYTES: Final = 256 * 1024 * 1024
"""Bound in bytes of the keys and values that one call gathers for single-token requests."""


def cache_shape(num_blocks: int, block_size: int, num_kv_heads: int, head_size: int) -> tuple[int, ...]:
    """Return the shape of a layer's cache, `(2, N, B, K, D)`: keys, then values.

    Args:
        num_blocks: blocks of the cache.
        block_size: tokens in one block.
        num_kv_heads: key/value heads of the layer.
        head_size: size of one head.
    """
    return (2, num_blocks, block_size, num_kv_heads, head_size)


def numbers(tensor: torch.Tensor) -> list[int]:
    """Copy a tensor of integers to the host, `[n]`."""
    # torch leaves the element type of its lists open.
    copied: list[int] = cast("Any", tensor).tolist()
    return copied


def write_cache(
    key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Store the keys and values of a batch's tokens in their slots.

    Args:
        key: `(T, K, D)`; may have more rows than there are slots, the rest is padding.
        value: as `key`.
        cache: `(2, N, B, K, D)`, contiguous, changed in place; another dtype converts.
        slot_mapping: `(T,)` integers, `block * B + offset`; a negative slot marks padding.
    """
    tokens = slot_mapping.shape[0]
    kept = slot_mapping >= 0
    slots = slot_mapping[kept].long()
    for half, new in ((KEY, key), (VALUE, value)):
        flat = cache[half].view(-1, *cache.shape[3:])
        flat[slots] = new[:tokens][kept].to(cache.dtype)


def attend(
    query: torch.Tensor,
    cache: torch.Tensor,
    block_table: torch.Tensor,
    query_starts: list[int],
    seq_lens: list[int],
    out: torch.Tensor,
    *,
    scale: float,
    causal: bool = True,
    window: int | None = None,
) -> None:
    """Attend from each request's new tokens to all its tokens in the cache.

    The new tokens are the last ones of their request and are in the cache already. Requests with one
    new token (decode) are computed together, the others (prefill, or a chunk of it) one by one.

    Args:
        query: `(T, Q, D)`, the new tokens of all requests, one request after the other.
        cache: `(2, N, B, K, D)`.
        block_table: `(R, M)` integers, the blocks of each request in order; entries of blocks that hold
            nothing a new token sees are not read.
        query_starts: `R + 1` numbers, where each request's new tokens start in `query`.
        seq_lens: `R` numbers, tokens of each request with the new ones; 0 marks a padding request,
            whose output is zero.
        out: `(T, Q, D)`, receives the result.
        scale: factor of the scores.
        causal: a token sees itself and earlier tokens only; else all of its request.
        window: a token sees at most this many tokens, itself included; None for all.
    """
    decoding: list[int] = []
    for request, length in enumerate(seq_lens):
        start, end = query_starts[request], query_starts[request + 1]
        if end - start == 1 and length > 0:
            decoding.append(request)
        elif end > start:
            _attend_to_one(
                query[start:end], cache, block_table[request], length, out[start:end], scale, causal, window
            )
    for chunk in _chunks(decoding, seq_lens, cache):
        _attend_decode(query, cache, block_table, query_starts, seq_lens, chunk, out, scale, window)


def _chunks(requests: list[int], seq_lens: list[int], cache: torch.Tensor) -> list[list[int]]:
    """Cut decoding requests into groups whose padded keys and values stay within the bound.

    Requests of similar length go together, so that a long one does not pad all the short ones.
    """
    per_token = 2 * cache.shape[3] * cache.shape[4] * cache.element_size()
    groups: list[list[int]] = []
    for request in sorted(requests, key=lambda r: seq_lens[r]):
        length = seq_lens[request]
        if groups:
            last = groups[-1]
            fits = (len(last) + 1) * length * per_token <= _DECODE_BYTES
            if fits and length <= 2 * max(seq_lens[last[0]], cache.shape[2]):
                last.append(request)
                continue
        groups.append([request])
    return groups


def _attend_decode(
    query: torch.Tensor,
    cache: torch.Tensor,
    block_table: torch.Tensor,
    query_starts: list[int],
    seq_lens: list[int],
    requests: list[int],
    out: torch.Tensor,
    scale: float,
    window: int | None,
) -> None:
    block_size = cache.shape[2]
    rows = torch.tensor([query_starts[r] for r in requests], device=query.device)
    lengths = torch.tensor([seq_lens[r] for r in requests], device=query.device)
    longest = max(seq_lens[r] for r in requests)
    first = 0
    if window is not None:
        # Whole blocks before the earliest token that any of these requests sees are not gathered.
        first = max(0, min(seq_lens[r] for r in requests) - window) // block_size
    last = -(-longest // block_size)
    table = block_table[torch.tensor(requests, device=block_table.device), first:last].long()
    # Outside of the blocks that a request sees the table may hold anything, as an engine takes back those
    # that left the window; what is read in their place is masked.
    positions = torch.arange(first * block_size, last * block_size, device=query.device)
    starts = positions[::block_size].unsqueeze(0)
    needed = starts < lengths.unsqueeze(1)
    if window is not None:
        needed &= starts + block_size > (lengths - window).unsqueeze(1)
    table = torch.where(needed, table, torch.zeros_like(table))
    keys = cache[KEY][table].flatten(1, 2).transpose(1, 2).to(query.dtype)
    values = cache[VALUE][table].flatten(1, 2).transpose(1, 2).to(query.dtype)
    seen = positions.unsqueeze(0) < lengths.unsqueeze(1)
    if window is not None:
        seen &= positions.unsqueeze(0) >= (lengths - window).unsqueeze(1)
    # A masked NaN would still poison the sum, and fresh cache memory may hold one.
    values = values.masked_fill(~seen[:, None, :, None], 0)
    keys = keys.masked_fill(~seen[:, None, :, None], 0)
    result = scaled_dot_product_attention(
        query[rows].unsqueeze(2),
        keys,
        values,
        attn_mask=seen[:, None, None, :],
        scale=scale,
        enable_gqa=query.shape[1] != cache.shape[3],
    )
    out[rows] = result.squeeze(2).to(out.dtype)


def _attend_to_one(
    query: torch.Tensor,
    cache: torch.Tensor,
    blocks: torch.Tensor,
    length: int,
    out: torch.Tensor,
    scale: float,
    causal: bool,
    window: int | None,
) -> None:
    if length == 0:
        out.zero_()
        return
    new, block_size = query.shape[0], cache.shape[2]
    # What even the first new token no longer sees is not read: its blocks may be another request's by now.
    first = 0 if window is None else max(0, length - new - window + 1)
    skipped = first // block_size
    table = blocks[skipped : -(-length // block_size)].long()
    seen = slice(first - skipped * block_size, length - skipped * block_size)
    keys = cache[KEY][table].flatten(0, 1)[seen].transpose(0, 1).to(query.dtype)
    values = cache[VALUE][table].flatten(0, 1)[seen].transpose(0, 1).to(query.dtype)
    whole = causal and window is None and new == length
    mask = None if whole else _mask(new, length - first, causal, window, query.device)
    result = scaled_dot_product_attention(
        query.transpose(0, 1).unsqueeze(0),
        keys.unsqueeze(0),
        values.unsqueeze(0),
        attn_mask=mask,
        is_causal=whole,
        scale=scale,
        enable_gqa=query.shape[1] != cache.shape[3],
    )
    out.copy_(result.squeeze(0).transpose(0, 1))


def _mask(
    new: int, length: int, causal: bool, window: int | None, device: torch.device
) -> torch.Tensor | None:
    """Return `(new, length)` booleans, True where a new token sees a token; None for all."""
    if not causal and window is None:
        return None
    here = torch.arange(length - new, length, device=device).unsqueeze(1)
    there = torch.arange(length, device=device).unsqueeze(0)
    seen = torch.ones(new, length, dtype=torch.bool, device=device)
    if causal:
        seen &= there <= here
    if window is not None:
        seen &= there > here - window
        if not causal:
            seen &= there < here + window
    return seen
