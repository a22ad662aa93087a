# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# ruff: noqa: ANN001, ANN201, N803
"""Kernels of the paged cache: where each token of a step goes, and putting it there."""

import triton
import triton.language as tl


@triton.jit
def slot_mapping(
    slots,
    query_starts,
    positions,
    table,
    requests,
    length,
    table_request,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Write the slot of each token of one request; the last program marks what follows as padding."""
    request = tl.program_id(0)
    start = tl.load(query_starts + request)
    if request == requests:
        for base in range(start, length, TILE):
            token = base + tl.arange(0, TILE)
            tl.store(slots + token, tl.full([TILE], -1, tl.int64), mask=token < length)
    else:
        end = tl.load(query_starts + request + 1)
        for base in range(start, end, TILE):
            token = base + tl.arange(0, TILE)
            inside = token < end
            position = tl.load(positions + token, mask=inside, other=0)
            block = tl.load(
                table + request.to(tl.int64) * table_request + position // BLOCK_SIZE, mask=inside, other=0
            ).to(tl.int64)
            tl.store(slots + token, block * BLOCK_SIZE + position % BLOCK_SIZE, mask=inside)


@triton.jit
def write_cache(
    keys,
    values,
    key,
    value,
    slots,
    keys_block,
    keys_token,
    keys_head,
    keys_element,
    values_block,
    values_token,
    values_head,
    values_element,
    key_token,
    key_head,
    key_element,
    value_token,
    value_head,
    value_element,
    BLOCK_SIZE: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Copy one token's keys and values, of all heads, into its slot; a negative slot is padding."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot >= 0:
        block = slot // BLOCK_SIZE
        offset = slot % BLOCK_SIZE
        for base in range(0, HEADS * HEAD_SIZE, TILE):
            place = base + tl.arange(0, TILE)
            inside = place < HEADS * HEAD_SIZE
            head = place // HEAD_SIZE
            element = place % HEAD_SIZE
            new_key = tl.load(
                key + token * key_token + head * key_head + element * key_element, mask=inside, other=0.0
            )
            tl.store(
                keys + block * keys_block + offset * keys_token + head * keys_head + element * keys_element,
                new_key.to(keys.dtype.element_ty),
                mask=inside,
            )
            new_value = tl.load(
                value + token * value_token + head * value_head + element * value_element,
                mask=inside,
                other=0.0,
            )
            tl.store(
                values
                + block * values_block
                + offset * values_token
                + head * values_head
                + element * values_element,
                new_value.to(values.dtype.element_ty),
                mask=inside,
            )
