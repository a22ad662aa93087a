"""The picked attention backend over all shapes that it says it takes: heads, head sizes, block sizes, dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs

from conformance.checks.attention import BATCHES
from conformance.context import CheckContext
from conformance.model import Level
from conformance.numeric.attention_cases import Ask, Case, Shape, Step, with_past
from conformance.numeric.attention_judge import judge
from conformance.numeric.attention_run import Refused, base_shape, pick
from conformance.registry import check

_MOST: Final = 8
"""So many sizes of those that a backend lists."""


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
    for heads, kv_heads in ((1, 1), (2, 2), (4, 1), (8, 1), (8, 4), (6, 2), (16, 2), (3, 3), (5, 1)):
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
    for size in [one for one in wanted if one <= 512][: 2 * _MOST]:
        yield attrs.evolve(shape, block_size=size)


def _of_dtypes(ctx: CheckContext, shape: Shape) -> Iterator[Shape]:
    for dtype in ("float32", "bfloat16", "float16"):
        yield attrs.evolve(shape, dtype=dtype)


def _sizes(listed: Sequence[Any]) -> list[int]:
    return [int(getattr(one, "base", one)) for one in listed]


_TABLE: Final[tuple[tuple[str, Callable[[CheckContext, Shape], Iterator[Shape]], str, str, str], ...]] = (
    (
        "groups",
        _of_groups,
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
        "Every head size that the backend says it takes is computed right.",
        "Whoever runs a model with another head size than yours gets wrong answers without an error.",
        "Mask what a kernel loads beyond the head size, or leave the size out of `get_supported_head_sizes`.",
    ),
    (
        "block-sizes",
        _of_block_sizes,
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
        "Every dtype that the platform lists and the backend says it takes is computed with the precision of that dtype.",
        "A model runs in the dtype of its weights, or in the first one that the platform lists.",
        "Add up in float32, and round to the dtype at the end only; or leave the dtype out of `supported_dtypes`.",
    ),
)
"""By check: its name, its shapes, the rule, what breaks, and what to change."""


def _register(
    name: str, shapes: Callable[[CheckContext, Shape], Iterator[Shape]], says: str, why: str, hint: str
) -> None:
    @check(
        f"attention.{name}",
        group="pickers",
        level=Level.COMPONENTS,
        engines=("native",),
        needs=BATCHES,
        why=why,
        hint=hint,
    )
    def run(ctx: CheckContext) -> None:
        base = base_shape(ctx)
        chosen = [shape for shape in shapes(ctx, base) if _is_served(ctx, shape)]
        ctx.details["shapes"] = [str(shape) for shape in chosen]
        judge(ctx, [problem(shape) for shape in chosen], says=says, hint=hint)

    run.__doc__ = says


def _is_served(ctx: CheckContext, shape: Shape) -> bool:
    try:
        pick(ctx, shape)
    except Refused:
        return False
    return True


for _row in _TABLE:
    _register(*_row)
