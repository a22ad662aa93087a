"""The picked attention backend over all shapes that it says it takes: heads, head sizes, block sizes, dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs

from conformance.checks.attention import BATCHES
from conformance.context import CheckContext
from conformance.model import Level, Unsupported
from conformance.numeric.attention_cases import Ask, Case, Shape, Step, one_step, with_past
from conformance.numeric.attention_judge import judge, judgeable
from conformance.numeric.attention_run import Refused, base_shape, pick
from conformance.registry import check

_MOST: Final = 16
"""So many sizes of those that a backend lists."""
_VALUES_AT: Final = 1.0
"""Where values lie in long contexts: a sum that stops to grow shows then."""


def problem(shape: Shape) -> Case:
    """A ragged batch: two decode steps, a chunk and a prefill."""
    size = shape.block_size
    asks = (
        Ask("d", (2,), past=min(4, size - 1), new=1),
        Ask("e", (7, 1), past=size, new=1),
        Ask("h", (6, 3, 8), past=size - 1, new=3),
        Ask("a", (5, 9, 10, 11, 12), new=min(5, size + 2)),
    )
    return with_past("a mixed batch", shape, Step(asks), num_blocks=13)


def _of_groups(ctx: CheckContext, shape: Shape) -> Iterator[Shape]:
    for heads, kv_heads in (
        (1, 1),
        (2, 2),
        (4, 1),
        (8, 1),
        (8, 4),
        (6, 2),
        (16, 2),
        (3, 3),
        (5, 1),
        (24, 1),
        (40, 2),
    ):
        yield attrs.evolve(shape, heads=heads, kv_heads=kv_heads)


def _of_head_sizes(ctx: CheckContext, shape: Shape) -> Iterator[Shape]:
    listed = _sizes(pick(ctx, shape).get_supported_head_sizes())
    for size in (listed or [32, 64, 80, 96, 128, 256])[:_MOST]:
        yield attrs.evolve(shape, head_size=size)


def _of_block_sizes(ctx: CheckContext, shape: Shape) -> Iterator[Shape]:
    listed = _sizes(pick(ctx, shape).get_supported_kernel_block_sizes())
    wanted: dict[int, None] = {}
    for size in listed or [1]:
        wanted.update(dict.fromkeys((size, 2 * size, 3 * size)))
    wanted.update(dict.fromkeys((16, 32, 64, 128)))
    for size in [one for one in wanted if one <= 512][:_MOST]:
        yield attrs.evolve(shape, block_size=size)


def _of_dtypes(ctx: CheckContext, shape: Shape) -> Iterator[Shape]:
    for dtype in ("float32", "bfloat16", "float16"):
        yield attrs.evolve(shape, dtype=dtype)


def _of_cache_dtypes(ctx: CheckContext, shape: Shape) -> Iterator[Shape]:
    for dtype in ("float32", "bfloat16", "float16"):
        one = attrs.evolve(shape, dtype=dtype)
        if not _is_served(ctx, one):
            continue
        listed = map(str, pick(ctx, one).supported_kv_cache_dtypes)
        for stored in [name for name in listed if judgeable(name)]:
            yield attrs.evolve(one, cache_dtype=stored)


def _long(shape: Shape) -> Sequence[Case]:
    lifted, size = attrs.evolve(shape, lift=_VALUES_AT), shape.block_size
    table = tuple(range(901 // size, -1, -1))
    return [
        one_step("a prefill of 210 tokens", lifted, Ask("a", table, new=210), num_blocks=len(table)),
        with_past(
            "a decode step after 900 tokens",
            lifted,
            Step((Ask("b", table, past=900, new=1),)),
            num_blocks=len(table),
        ),
        with_past(
            "a chunk of 70 tokens after 500",
            lifted,
            Step((Ask("c", table, past=500, new=70),)),
            num_blocks=len(table),
        ),
    ]


def _mixed(shape: Shape) -> Sequence[Case]:
    return [problem(shape)]


def _sizes(listed: Sequence[Any]) -> list[int]:
    return [int(getattr(one, "base", one)) for one in listed]


_TABLE: Final[
    tuple[
        tuple[
            str,
            Callable[[CheckContext, Shape], Iterator[Shape]],
            Callable[[Shape], Sequence[Case]],
            tuple[str, ...],
            str,
            str,
            str,
        ],
        ...,
    ]
] = (
    (
        "groups",
        _of_groups,
        _mixed,
        BATCHES,
        "Any number of query heads may share a kv head, and there may be one kv head only.",
        "Models differ in how many query heads share a kv head, and tensor parallelism leaves some ranks with one.",
        (
            "Compute with `num_heads` and `num_kv_heads` as they are given; round up where a kernel wants a power of 2, and "
            "mask the rest."
        ),
    ),
    (
        "head-sizes",
        _of_head_sizes,
        _mixed,
        BATCHES,
        "Every head size that the backend says it takes is computed right.",
        "Whoever runs a model with another head size than yours gets wrong answers without an error.",
        "Mask what a kernel loads beyond the head size, or leave the size out of `get_supported_head_sizes`.",
    ),
    (
        "block-sizes",
        _of_block_sizes,
        _mixed,
        BATCHES,
        "Every block size that the backend says it takes is computed right.",
        "The engine chooses the block size from what all layers of a model take.",
        (
            "Take the block size from the cache's spec, or leave the size out of `get_supported_kernel_block_sizes` and "
            "`supports_block_size`."
        ),
    ),
    (
        "dtypes",
        _of_dtypes,
        _mixed,
        BATCHES,
        "Every dtype that the platform lists and the backend says it takes is computed with the precision of that dtype.",
        "A model runs in the dtype of its weights, or in the first one that the platform lists.",
        "Add up in float32, and round to the dtype at the end only; or leave the dtype out of `supported_dtypes`.",
    ),
    (
        "long",
        _of_dtypes,
        _long,
        (*BATCHES, "attention.dtypes"),
        "A request of hundreds of tokens is computed like one of few: its last token sees its first, with the same precision.",
        "Short prompts fit one tile, and few of them show that a sum stops to grow in sixteen bits.",
        (
            "Mask each tile by the positions in it, walk through all blocks of the request, and keep the running maximum, the "
            "sum of weights and the weighted sum in float32."
        ),
    ),
    (
        "cache-dtypes",
        _of_cache_dtypes,
        _mixed,
        (*BATCHES, "attention.dtypes"),
        "Every dtype of `supported_kv_cache_dtypes` keeps keys and values up to its rounding.",
        "Users choose a smaller cache to serve more requests, and take the backend's word that answers stay the same.",
        "Convert keys and values when they are stored and when they are read; or leave the dtype out of the list.",
    ),
)
"""By check: its name, shapes, problems, what it needs, the rule, what breaks, and what to change."""


def _register(
    name: str,
    shapes: Callable[[CheckContext, Shape], Iterator[Shape]],
    problems: Callable[[Shape], Sequence[Case]],
    needs: tuple[str, ...],
    says: str,
    why: str,
    hint: str,
) -> None:
    @check(
        f"attention.{name}",
        group="pickers",
        level=Level.COMPONENTS,
        engines=("native",),
        needs=needs,
        why=why,
        hint=hint,
    )
    def run(ctx: CheckContext) -> None:
        base = base_shape(ctx)
        chosen = [shape for shape in shapes(ctx, base) if _is_served(ctx, shape)]
        ctx.details["shapes"] = [str(shape) for shape in chosen]
        if not chosen:
            raise Unsupported("the platform serves no such layer")
        judge(ctx, [case for shape in chosen for case in problems(shape)], says=says, hint=hint)

    run.__doc__ = says


def _is_served(ctx: CheckContext, shape: Shape) -> bool:
    try:
        pick(ctx, shape)
    except Refused:
        return False
    return True


for _row in _TABLE:
    _register(*_row)
