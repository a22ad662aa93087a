# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# ruff: noqa: ANN001, ANN201, N803
"""Kernels of low-rank adapters: each token is multiplied by the matrices of its own slot."""

import triton
import triton.language as tl


@triton.jit
def shrink(
    y,
    x,
    lora_a,
    slots,
    scale,
    inputs,
    y_token,
    y_element,
    x_token,
    x_element,
    a_slot,
    a_rank,
    a_element,
    RANK: tl.constexpr,
    RANK_TILE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Multiply one token by some rows of its adapter's first matrix; a token without one gives zeros."""
    token = tl.program_id(0).to(tl.int64)
    rank = tl.program_id(1) * RANK_TILE + tl.arange(0, RANK_TILE)
    real = rank < RANK
    slot = tl.load(slots + token).to(tl.int64)
    sums = tl.zeros([RANK_TILE], tl.float32)
    if slot >= 0:
        for base in range(0, inputs, TILE):
            place = base + tl.arange(0, TILE)
            inside = place < inputs
            part = tl.load(x + token * x_token + place * x_element, mask=inside, other=0.0).to(tl.float32)
            weight = tl.load(
                lora_a + slot * a_slot + rank[:, None] * a_rank + place[None, :] * a_element,
                mask=real[:, None] & inside[None, :],
                other=0.0,
            ).to(tl.float32)
            sums += tl.sum(weight * part[None, :], 1)
    tl.store(y + token * y_token + rank * y_element, (sums * scale).to(y.dtype.element_ty), mask=real)


@triton.jit
def expand(
    y,
    x,
    lora_b,
    slots,
    outputs,
    y_token,
    y_element,
    x_token,
    x_element,
    b_slot,
    b_output,
    b_element,
    RANK: tl.constexpr,
    PADDED_RANK: tl.constexpr,
    TILE: tl.constexpr,
    ADD: tl.constexpr,
):
    """Multiply one token by some rows of its adapter's second matrix, and add; without one nothing changes."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot >= 0:
        output = tl.program_id(1) * TILE + tl.arange(0, TILE)
        inside = output < outputs
        rank = tl.arange(0, PADDED_RANK)
        real = rank < RANK
        part = tl.load(x + token * x_token + rank * x_element, mask=real, other=0.0).to(tl.float32)
        weight = tl.load(
            lora_b + slot * b_slot + output[:, None] * b_output + rank[None, :] * b_element,
            mask=inside[:, None] & real[None, :],
            other=0.0,
        ).to(tl.float32)
        result = tl.sum(weight * part[None, :], 1)
        target = y + token * y_token + output * y_element
        if ADD:
            result += tl.load(target, mask=inside, other=0.0).to(tl.float32)
        tl.store(target, result.to(y.dtype.element_ty), mask=inside)
