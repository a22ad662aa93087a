"""Attention over a paged key/value cache, by torch's scaled dot product attention.

Functions on plain tensors. What follows from the batch alone, and so is the same for every layer of a step, is
kept in `Plans`. Shapes use these letters: `T` tokens of the batch, `R` requests, `Q` query heads, `K` key/value
heads (`Q` is a multiple of `K`), `D` head size, `N` blocks of the cache, `B` tokens in one block, `M` blocks of
the longest request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import attrs
import torch
from torch.nn.functional import scaled_dot_product_attention

from platforms.components.torch_kernels import KEY, VALUE

_HOST_BYTES: Final = 2 * 1024 * 1024
"""Bound in bytes of the keys and values that one call gathers on the host: what its caches hold."""

_DEVICE_BYTES: Final = 256 * 1024 * 1024
"""The same on a device, where few large calls are best."""


@attrs.frozen(eq=False)
class Group:
    """Requests with one new token each that are computed by one call.

    Args:
        rows: their places in the query.
        blocks: int64 `[n, blocks]`, what is gathered; a block that is not needed is block 0.
        length: how many of the gathered tokens of each request are used, from the first.
        dead: int64, tokens among all that are gathered that no request sees; None for none.
        mask: `[n, 1, 1, length]`, 0 where a token is seen, else minus infinity; None if all are.
    """

    rows: slice | torch.Tensor
    blocks: torch.Tensor
    length: int
    dead: torch.Tensor | None
    mask: torch.Tensor | None


@attrs.define(eq=False)
class Plans:
    """What the layers of a step share; empty at its start, filled by the first layer of each kind.

    Args:
        groups: of the requests with one new token, by what they depend on.
        buffers: memory for gathered keys and values, which the next call overwrites.
    """

    groups: dict[tuple[object, ...], list[Group]] = attrs.field(
        factory=dict[tuple[object, ...], "list[Group]"]
    )
    buffers: dict[tuple[object, ...], torch.Tensor] = attrs.field(
        factory=dict[tuple[object, ...], torch.Tensor]
    )


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


def check_batch(starts: list[int], lengths: list[int], most: int) -> None:
    """Refuse a batch that would read outside of a request's blocks.

    Args:
        starts: where each request's new tokens start, and where the last one's end.
        lengths: tokens of each request.
        most: tokens that a row of the block table holds.

    Raises:
        ValueError: naming the first request at fault.
    """
    if len(starts) != len(lengths) + 1:
        raise ValueError(f"{len(lengths)} requests need {len(lengths) + 1} starts, got {len(starts)}")
    for request, length in enumerate(lengths):
        new = starts[request + 1] - starts[request]
        if new < 0:
            raise ValueError(f"request {request} of the batch ends before it starts: {starts}")
        if 0 < length < new:
            raise ValueError(f"request {request} of the batch has {new} new tokens, but {length} in all")
        if length > most:
            raise ValueError(
                f"request {request} of the batch has {length} tokens, but its row of the block table holds {most}"
            )


def written_slots(slot_mapping: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the slots that are no padding, int64, and whose they are; None if all tokens have one.

    Args:
        slot_mapping: integers `[T]`; a negative slot is padding.
    """
    slots = slot_mapping.long()
    kept = slots >= 0
    if bool(kept.all()):
        return slots, None
    tokens = kept.nonzero().squeeze(1)
    return slots[tokens], tokens


def write_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    cache: torch.Tensor,
    slots: torch.Tensor,
    tokens: torch.Tensor | None,
) -> None:
    """Store the keys and values of a batch's tokens in their slots.

    Args:
        key: `(T, K, D)`; more rows than there are slots are padding.
        value: as `key`.
        cache: `(2, N, B, K, D)`, any strides, changed in place; another dtype converts.
        slots: int64, `block * B + offset`.
        tokens: whose slots they are; None for the first ones in order.
    """
    size, flat = cache.shape[2], _flat(cache, 1, 2)
    for half, new in ((KEY, key), (VALUE, value)):
        rows = (new[: slots.shape[0]] if tokens is None else new[tokens]).to(cache.dtype)
        if flat is None:
            cache[half].index_put_((slots // size, slots % size), rows)
        else:
            flat[half].index_copy_(0, slots, rows)


def _flat(cache: torch.Tensor, first: int, last: int) -> torch.Tensor | None:
    """Return the cache with these dimensions as one, in the same memory; None where they do not lie so."""
    try:
        return cache.view(*cache.shape[:first], -1, *cache.shape[last + 1 :])
    except RuntimeError:
        return None


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
    plans: Plans | None = None,
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
        plans: of this batch, for the next layer; None keeps nothing.
    """
    plans = Plans() if plans is None else plans
    what = (window, query.dtype, query.device, cache.shape, cache.dtype)
    groups = plans.groups.get(what)
    if groups is None:
        groups = list(_groups(query, cache, block_table, query_starts, seq_lens, window))
        plans.groups[what] = groups
    for group in groups:
        _attend_group(query, cache, group, out, scale, plans)
    for request, length in enumerate(seq_lens):
        start, end = query_starts[request], query_starts[request + 1]
        if end - start > 1 or (length == 0 and end > start):
            _attend_to_one(
                query[start:end], cache, block_table[request], length, out[start:end], scale, causal, window
            )


def _groups(
    query: torch.Tensor,
    cache: torch.Tensor,
    block_table: torch.Tensor,
    query_starts: list[int],
    seq_lens: list[int],
    window: int | None,
) -> Iterator[Group]:
    """Cut the requests with one new token into groups whose padded keys and values stay within the bound.

    Requests of similar length go together, so that a long one does not pad all the short ones.
    """
    requests = [
        request
        for request, length in enumerate(seq_lens)
        if length > 0 and query_starts[request + 1] - query_starts[request] == 1
    ]
    block_size = cache.shape[2]
    lengths = [seq_lens[request] for request in requests]
    # Left in order where it does no harm: neighbours are a slice, which needs no copy.
    if lengths and max(lengths) > 2 * max(min(lengths), block_size):
        requests.sort(key=lambda request: seq_lens[request])
    bound = _HOST_BYTES if query.device.type == "cpu" else _DEVICE_BYTES
    per_token = 2 * cache.shape[3] * cache.shape[4] * cache.element_size()
    group: list[int] = []
    longest = shortest = 0
    for request in requests:
        length = seq_lens[request]
        if group:
            fits = (len(group) + 1) * max(longest, length) * per_token <= bound
            if not fits or max(longest, length) > 2 * max(min(shortest, length), block_size):
                yield _group(query, group, block_size, block_table, query_starts, seq_lens, window)
                group = []
        longest, shortest = (max(longest, length), min(shortest, length)) if group else (length, length)
        group.append(request)
    if group:
        yield _group(query, group, block_size, block_table, query_starts, seq_lens, window)


def _group(
    query: torch.Tensor,
    requests: list[int],
    block_size: int,
    block_table: torch.Tensor,
    query_starts: list[int],
    seq_lens: list[int],
    window: int | None,
) -> Group:
    device = query.device
    places = [query_starts[request] for request in requests]
    neighbours = places == list(range(places[0], places[0] + len(places)))
    rows = slice(places[0], places[-1] + 1) if neighbours else torch.tensor(places, device=device)
    lengths = [seq_lens[request] for request in requests]
    # Whole blocks before the earliest token that any of these requests sees are not gathered.
    first = 0 if window is None else max(0, min(lengths) - window) // block_size
    last = -(-max(lengths) // block_size)
    # One that is copied by a slice of the table is not copied by numbers.
    whole = requests == list(range(requests[0], requests[0] + len(requests)))
    picked = (
        block_table[requests[0] : requests[-1] + 1]
        if whole
        else block_table[torch.tensor(requests, device=device)]
    )
    table = picked[:, first:last].long()
    end = torch.tensor(lengths, device=device).unsqueeze(1)
    begin = None if window is None else end - window
    length = max(lengths) - first * block_size
    if window is None and min(lengths) == max(lengths):
        return Group(rows, table.contiguous(), length, None, None)
    positions = torch.arange(first * block_size, last * block_size, device=device).unsqueeze(0)
    seen = positions < end if begin is None else (positions < end) & (positions >= begin)
    # Outside of the blocks that a request sees the table may hold anything, as an engine takes back those
    # that left the window; what is read in their place is masked.
    needed = seen.view(len(requests), -1, block_size).any(-1)
    table = torch.where(needed, table, 0)
    # A masked NaN would still poison the sum, and fresh cache memory may hold one.
    dead = (~seen).flatten().nonzero().squeeze(1)
    mask = torch.zeros(seen[:, :length].shape, dtype=query.dtype, device=device)
    mask.masked_fill_(~seen[:, :length], float("-inf"))
    return Group(rows, table, length, dead, mask[:, None, None, :])


def _attend_group(
    query: torch.Tensor,
    cache: torch.Tensor,
    group: Group,
    out: torch.Tensor,
    scale: float,
    plans: Plans,
) -> None:
    count, kv_heads, head_size = group.blocks.shape[0], cache.shape[3], cache.shape[4]
    both = _gather(cache, group.blocks.flatten(), plans)
    if group.dead is not None:
        both.view(2, -1, kv_heads, head_size).index_fill_(1, group.dead, 0)
    both = both.view(2, count, -1, kv_heads, head_size)[:, :, : group.length].transpose(2, 3)
    if both.dtype != query.dtype:
        both = both.to(query.dtype)
    # The query heads that share a key head are rows of one matrix, so nothing is repeated for them.
    rows = query[group.rows].reshape(count, kv_heads, -1, head_size)
    result = scaled_dot_product_attention(rows, both[KEY], both[VALUE], attn_mask=group.mask, scale=scale)
    out[group.rows] = result.reshape(count, -1, head_size).to(out.dtype)


def _gather(cache: torch.Tensor, blocks: torch.Tensor, plans: Plans) -> torch.Tensor:
    """Return the keys and values of blocks, `(2, blocks, B, K, D)`, in memory that the next call overwrites."""
    shape = (2, blocks.shape[0], *cache.shape[2:])
    what = (shape, cache.dtype, cache.device)
    buffer = plans.buffers.get(what)
    if buffer is None:
        buffer = torch.empty(shape, dtype=cache.dtype, device=cache.device)
        plans.buffers[what] = buffer
    for half in (KEY, VALUE):
        # As rows of one long dimension each block is one copy of memory.
        source, target = _flat(cache[half], 1, 3), buffer[half]
        if source is None:
            torch.index_select(cache[half], 0, blocks, out=target)
        else:
            torch.index_select(source, 0, blocks, out=target.view(blocks.shape[0], -1))
    return buffer


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
    keys = cache[KEY].index_select(0, table).flatten(0, 1)[seen].transpose(0, 1).to(query.dtype)
    values = cache[VALUE].index_select(0, table).flatten(0, 1)[seen].transpose(0, 1).to(query.dtype)
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
