# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# ruff: noqa: ANN001, ANN201, N803
"""The kernel of paged attention, for prompts, parts of prompts and single tokens alike."""

import triton
import triton.language as tl


@triton.jit
def paged_attention(
    out,
    query,
    keys,
    values,
    table,
    query_starts,
    seq_lens,
    scale,
    window,
    out_token,
    out_head,
    out_element,
    query_token,
    query_head,
    query_element,
    keys_block,
    keys_token,
    keys_head,
    keys_element,
    values_block,
    values_token,
    values_head,
    values_element,
    table_request,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    PADDED_HEAD: tl.constexpr,
    SHARED_BY: tl.constexpr,
    QUERY_TILE: tl.constexpr,
    ROWS: tl.constexpr,
    KEY_TILE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOWED: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Attend from a few new tokens of one request, in the query heads that share one key head.

    The program `(tile, request, key head)` has `ROWS` rows: `QUERY_TILE` tokens times `SHARED_BY` heads,
    and what is left over does nothing. It walks over the tokens that its rows see, `KEY_TILE` at a time,
    with the running maximum and sum of a softmax that never holds all scores.

    Unless `WIDE`, the operands have 16 bits. Probabilities are then split into what 16 bits hold and what is
    left, so that units for 16-bit matrices lose nothing of them.
    """
    tile = tl.program_id(0)
    request = tl.program_id(1)
    group = tl.program_id(2)
    start = tl.load(query_starts + request)
    new = tl.load(query_starts + request + 1) - start
    first = tile * QUERY_TILE
    if first < new:
        length = tl.load(seq_lens + request)
        row = tl.arange(0, ROWS)
        token = first + row // SHARED_BY
        head = group * SHARED_BY + row % SHARED_BY
        live = (row // SHARED_BY < QUERY_TILE) & (token < new)
        element = tl.arange(0, PADDED_HEAD)
        real = element < HEAD_SIZE
        wide_row = (start + token).to(tl.int64)
        q = tl.load(
            query
            + wide_row[:, None] * query_token
            + head[:, None] * query_head
            + element[None, :] * query_element,
            mask=live[:, None] & real[None, :],
            other=0.0,
        )
        if WIDE:
            q = q.to(tl.float32)
        here = length - new + token
        low = 0
        high = length
        if WINDOWED:
            low = tl.maximum(length - new + first - window + 1, 0)
            if not CAUSAL:
                high = tl.minimum(length, length - new + first + QUERY_TILE - 1 + window)
        if CAUSAL:
            high = tl.minimum(length, length - new + first + QUERY_TILE)
        best = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        sums = tl.zeros([ROWS, PADDED_HEAD], tl.float32)
        for base in range(low, high, KEY_TILE):
            there = base + tl.arange(0, KEY_TILE)
            # What is not seen is not read: its place in the table, or in memory, may hold anything.
            inside = there < high
            block = tl.load(table + request * table_request + there // BLOCK_SIZE, mask=inside, other=0).to(
                tl.int64
            )
            offset = there % BLOCK_SIZE
            k = tl.load(
                keys
                + (block * keys_block + offset * keys_token + group * keys_head)[None, :]
                + element[:, None] * keys_element,
                mask=real[:, None] & inside[None, :],
                other=0.0,
            ).to(q.dtype)
            scores = tl.dot(q, k, input_precision="ieee") * scale
            seen = live[:, None] & inside[None, :]
            if CAUSAL:
                seen = seen & (there[None, :] <= here[:, None])
            if WINDOWED:
                seen = seen & (there[None, :] > here[:, None] - window)
                if not CAUSAL:
                    seen = seen & (there[None, :] < here[:, None] + window)
            scores = tl.where(seen, scores, float("-inf"))
            highest = tl.maximum(best, tl.max(scores, 1))
            # A row that has seen nothing yet has no maximum, and infinity less infinity is no number.
            shift = tl.where(highest == float("-inf"), 0.0, highest)
            weights = tl.exp(scores - shift[:, None])
            kept = tl.exp(best - shift)
            v = tl.load(
                values
                + (block * values_block + offset * values_token + group * values_head)[:, None]
                + element[None, :] * values_element,
                mask=inside[:, None] & real[None, :],
                other=0.0,
            ).to(q.dtype)
            sums = sums * kept[:, None]
            total = total * kept + tl.sum(weights, 1)
            upper = weights.to(q.dtype)
            sums += tl.dot(upper, v, input_precision="ieee")
            if not WIDE:
                lower = (weights - upper.to(tl.float32)).to(q.dtype)
                sums += tl.dot(lower, v, input_precision="ieee")
            best = highest
        result = sums / tl.where(total == 0.0, 1.0, total)[:, None]
        tl.store(
            out + wide_row[:, None] * out_token + head[:, None] * out_head + element[None, :] * out_element,
            result.to(out.dtype.element_ty),
            mask=live[:, None] & real[None, :],
        )
