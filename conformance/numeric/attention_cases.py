"""The problems that an attention backend is given: shapes, requests, and the steps in which they come.

A problem is data: it names the blocks of each request and how many tokens each step brings. The tokens of a
request follow from its name, so that the same request can come alone, in a batch, in one step or in several.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    import torch

LONGEST: Final = 1024
"""Most tokens of a request."""
_VALUES: Final = 2
"""Which of the three parts of a stream are its values."""

Stream = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]
"""Queries `[n, H, D]`, keys `[n, K, D]` and values `[n, K, D]` of a request."""


@attrs.frozen
class Shape:
    """The shape of one attention layer.

    Args:
        heads: query heads.
        kv_heads: key and value heads.
        head_size: elements of a head.
        block_size: tokens of a block.
        dtype: of queries, by torch's name.
        window: tokens that a token sees, itself included; None for all.
        factor: by which the usual scale, `head_size ** -0.5`, is multiplied.
        cap: a score passes `cap * tanh(score / cap)`; None for none.
        slopes: of each query head's position bias; empty for none.
        cache_dtype: how keys and values are stored.
        lift: added to all values, so that sums do not cancel.
    """

    heads: int
    kv_heads: int
    head_size: int
    block_size: int
    dtype: str
    window: int | None = None
    factor: float = 1.0
    cap: float | None = None
    slopes: tuple[float, ...] = ()
    cache_dtype: str = "auto"
    lift: float = 0.0

    @property
    def scale(self) -> float:
        """The factor of the scores."""
        return float(self.head_size**-0.5 * self.factor)

    def __str__(self) -> str:
        more = f", window {self.window}" if self.window else ""
        more += f", soft cap {self.cap:g}" if self.cap else ""
        more += f", alibi slopes from {self.slopes[0]:g}" if self.slopes else ""
        more += f", stored as {self.cache_dtype}" if self.cache_dtype != "auto" else ""
        return (
            f"{self.heads} query heads, {self.kv_heads} kv heads, head size {self.head_size}, "
            f"block size {self.block_size}, {self.dtype}{more}"
        )


@attrs.frozen
class Ask:
    """One request's share of a step.

    Args:
        name: of the request; its tokens follow from it.
        blocks: its blocks, in order.
        new: tokens of this step.
        past: tokens that are in the cache already.
        like: another request, whose first tokens it shares.
        shared: how many.
    """

    name: str
    blocks: tuple[int, ...]
    new: int
    past: int = 0
    like: str = ""
    shared: int = 0

    @property
    def length(self) -> int:
        """Tokens of the request with this step's."""
        return self.past + self.new


@attrs.frozen
class Step:
    """One step of a problem.

    Args:
        asks: the batch, in order.
        padding: rows beyond the step's tokens, whose slot is negative.
        fused: queries, keys and values are views of one tensor, as a fused projection gives them.
        given: the output is given, and holds NaN.
        common: tokens that all requests share at their start.
        judged: the result is compared.
        causal: a token sees only itself and what comes before; else all of its request.
    """

    asks: tuple[Ask, ...]
    padding: int = 0
    fused: bool = False
    given: bool = True
    common: int = 0
    judged: bool = True
    causal: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of the step, padding left out."""
        return sum(ask.new for ask in self.asks)

    def rows(self) -> Sequence[tuple[Ask, int]]:
        """The request and the position of each token, in order."""
        return [(ask, ask.past + i) for ask in self.asks for i in range(ask.new)]


@attrs.frozen
class Case:
    """One problem.

    Args:
        name: in words, for "in …".
        shape: of the layer.
        steps: one after the other, on one cache.
        num_blocks: of the cache.
        stale: what the cache holds before the first step.
        spare: what table entries hold beyond the last block of a request: the number of a block.
        rough: only what is not finite, zero, or far off in many places counts: rounding is large here.
    """

    name: str
    shape: Shape
    steps: tuple[Step, ...]
    num_blocks: int = 8
    stale: float = 0.0
    spare: int = 0
    rough: bool = False


def slots(ask: Ask, block_size: int) -> list[int]:
    """The slots of a request's tokens, in order of position."""
    return [ask.blocks[i // block_size] * block_size + i % block_size for i in range(ask.length)]


def stream(shape: Shape, ask: Ask) -> Stream:
    """The tokens of a request, rounded to the dtype of the shape; in host memory."""
    import torch

    parts: list[torch.Tensor] = []
    for part, heads in enumerate((shape.heads, shape.kv_heads, shape.kv_heads)):
        own = _drawn(ask.name, part, heads, shape.head_size)
        if ask.like:
            other = _drawn(ask.like, part, heads, shape.head_size)
            own = torch.cat([other[: ask.shared], own[ask.shared :]])
        if part == _VALUES:
            own = own + shape.lift
        parts.append(own.to(getattr(torch, shape.dtype)))
    return parts[0], parts[1], parts[2]


@functools.cache
def _drawn(name: str, part: int, heads: int, head_size: int) -> torch.Tensor:
    import torch

    generator = torch.Generator().manual_seed(zlib.crc32(f"{name}/{part}".encode()))
    return torch.randn(LONGEST, heads, head_size, generator=generator)


def one_step(name: str, shape: Shape, *asks: Ask, **options: object) -> Case:
    """A problem of one judged step, before which each request's past was stored by a step of its own."""
    return with_past(name, shape, Step(tuple(asks)), **options)


def with_past(name: str, shape: Shape, step: Step, **options: object) -> Case:
    """A problem whose last step is judged, and whose earlier ones store what it looks back at."""
    before = [
        Step((attrs.evolve(ask, new=ask.past - ask.shared, past=ask.shared),), judged=False)
        for ask in step.asks
        if ask.past > ask.shared
    ]
    case = Case(name, shape, (*before, step))
    return attrs.evolve(case, **options) if options else case  # type: ignore[arg-type]  # by name
