# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# ruff: noqa: ANN001, ANN201, N803
"""Kernels of what lies between the matrices of a decoder: norm, gated activation, rotary positions."""

import triton
import triton.language as tl


@triton.jit
def rms_norm(
    out,
    x,
    weight,
    epsilon,
    out_row,
    x_row,
    x_element,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
):
    """Scale one row to a root mean square of one, then by the weights."""
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros([TILE], tl.float32)
    for base in range(0, WIDTH, TILE):
        place = base + tl.arange(0, TILE)
        part = tl.load(x + row * x_row + place * x_element, mask=place < WIDTH, other=0.0).to(tl.float32)
        squares += part * part
    factor = 1.0 / tl.sqrt(tl.sum(squares, 0) / WIDTH + epsilon)
    for base in range(0, WIDTH, TILE):
        place = base + tl.arange(0, TILE)
        inside = place < WIDTH
        part = tl.load(x + row * x_row + place * x_element, mask=inside, other=0.0).to(tl.float32)
        gain = tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * out_row + place, (part * factor * gain).to(out.dtype.element_ty), mask=inside)


@triton.jit
def silu_and_mul(
    out,
    x,
    out_row,
    x_row,
    x_element,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
):
    """Gate the second half of a row's piece by the SiLU of the first half's."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = place < WIDTH
    gate = tl.load(x + row * x_row + place * x_element, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(x + row * x_row + (place + WIDTH) * x_element, mask=inside, other=0.0).to(tl.float32)
    result = gate / (1.0 + tl.exp(-gate)) * other
    tl.store(out + row * out_row + place, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def rotary(
    out,
    x,
    cos,
    sin,
    out_token,
    out_head,
    x_token,
    x_head,
    x_element,
    angles_token,
    HEAD_SIZE: tl.constexpr,
    HALF: tl.constexpr,
    TILE: tl.constexpr,
):
    """Rotate the pairs `(i, i + HALF)` of one head of one token; elements from `2 * HALF` on are copied."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    source = x + token * x_token + head * x_head
    target = out + token * out_token + head * out_head
    for base in range(0, HALF, TILE):
        place = base + tl.arange(0, TILE)
        inside = place < HALF
        c = tl.load(cos + token * angles_token + place, mask=inside, other=0.0).to(tl.float32)
        s = tl.load(sin + token * angles_token + place, mask=inside, other=0.0).to(tl.float32)
        first = tl.load(source + place * x_element, mask=inside, other=0.0).to(tl.float32)
        second = tl.load(source + (place + HALF) * x_element, mask=inside, other=0.0).to(tl.float32)
        tl.store(target + place, (first * c - second * s).to(out.dtype.element_ty), mask=inside)
        tl.store(target + place + HALF, (second * c + first * s).to(out.dtype.element_ty), mask=inside)
    for base in range(2 * HALF, HEAD_SIZE, TILE):
        place = base + tl.arange(0, TILE)
        inside = place < HEAD_SIZE
        tl.store(target + place, tl.load(source + place * x_element, mask=inside, other=0.0), mask=inside)
