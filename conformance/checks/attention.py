"""The picked attention backend against plain attention in float64: heads, scale, mask, cache, blocks, batches.

Each check is about one cause. What a deviation looks like decides which of the first three tells it; the later
ones need the earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from conformance.checks.attention_steps import RUNS
from conformance.context import CheckContext
from conformance.model import Level
from conformance.numeric.attention_cases import Ask, Case, Shape, Step, one_step, with_past
from conformance.numeric.attention_judge import judge
from conformance.numeric.attention_run import base_shape
from conformance.registry import check

STORED: Final = (*RUNS, "attention.output", "attention.cache-slots")
BATCHES: Final = (*STORED, "attention.batch")

Problems = Callable[[Shape], Sequence[Case]]


@attrs.frozen
class Rule:
    """One check: problems, the rule that they show, and how it is told.

    Args:
        name: behind `attention.` in the id.
        says: the rule.
        why: what breaks.
        hint: what to change.
        needs: other checks.
        problems: what is run.
        only: families of mistakes that it tells; empty for all.
        never: families that another check tells.
    """

    name: str
    says: str
    why: str
    hint: str
    needs: tuple[str, ...]
    problems: Problems
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


def _heads(shape: Shape) -> Sequence[Case]:
    return [
        *(one_step("a request of one token", shape, Ask(name, (1,), new=1)) for name in ("a", "b")),
        one_step("a prefill of six tokens", shape, Ask("c", (1,), new=6)),
    ]


def _scale(shape: Shape) -> Sequence[Case]:
    other = attrs.evolve(shape, factor=0.4)
    return [
        one_step("a prefill of six tokens", shape, Ask("a", (1,), new=6)),
        one_step("a prefill with a scale of its own", other, Ask("a", (1,), new=6)),
        with_past("a decode step with a scale of its own", other, Step((Ask("a", (1,), past=5, new=1),))),
    ]


def _causal(shape: Shape) -> Sequence[Case]:
    most = min(shape.block_size, 13)
    return [
        one_step(f"a prefill of {count} tokens", shape, Ask("a", (1,), new=count)) for count in (2, 7, most)
    ]


def _decode(shape: Shape) -> Sequence[Case]:
    most = min(shape.block_size, 13)
    return [
        with_past("a decode step", shape, Step((Ask("a", (1,), past=past, new=1),)))
        for past in (1, 5, most - 1)
    ]


def _chunk(shape: Shape) -> Sequence[Case]:
    return [
        with_past(f"a chunk of {new} tokens after {past}", shape, Step((Ask("a", (1,), past=past, new=new),)))
        for past, new in ((4, 4), (2, 5), (6, 2))
    ]


def _blocks(shape: Shape) -> Sequence[Case]:
    size = shape.block_size
    table = (5, 1, 6)
    past = min(20 * size + 4, 700)
    many = past // size + 1
    return [
        one_step("a prefill over three blocks", shape, Ask("a", table, new=2 * size + 3)),
        with_past(
            "a decode step over three blocks", shape, Step((Ask("a", table, past=2 * size + 3, new=1),))
        ),
        with_past("a decode step into a new block", shape, Step((Ask("b", table, past=2 * size, new=1),))),
        with_past(
            "a decode step that fills a block", shape, Step((Ask("b", table, past=2 * size - 1, new=1),))
        ),
        with_past("a chunk across blocks", shape, Step((Ask("a", table, past=size - 2, new=size),))),
        with_past(
            f"a decode step over {many} blocks",
            shape,
            Step((Ask("c", tuple(range(many - 1, -1, -1)), past=past, new=1),)),
            num_blocks=many + 1,
        ),
    ]


def _batch(shape: Shape) -> Sequence[Case]:
    size = shape.block_size
    prefills = (Ask("a", (3,), new=3), Ask("b", (6, 1), new=size + 2), Ask("c", (4,), new=1))
    decodes = tuple(
        Ask(name, blocks, past=past, new=1)
        for name, blocks, past in (
            ("d", (2,), 4),
            ("e", (7, 0), size + 3),
            ("f", (5,), 1),
            ("g", (9, 8), size),
        )
    )
    chunk = Ask("h", (10, 11), past=3, new=size)
    many = tuple(Ask(f"m{i}", (23 - i,), past=1 + i % 5, new=1) for i in range(20))
    crowd = tuple(Ask(f"n{i}", (67 - i,), past=1 + i % 3, new=1) for i in range(67))
    return [
        one_step("a batch of three prefills", shape, *prefills, num_blocks=12),
        with_past("a batch of four decode steps", shape, Step(decodes), num_blocks=12),
        with_past("a batch of 20 decode steps", shape, Step(many), num_blocks=24),
        with_past("a batch of 67 decode steps", shape, Step(crowd), num_blocks=68),
        with_past(
            "a mixed batch, decode steps first", shape, Step((*decodes, chunk, *prefills)), num_blocks=12
        ),
        with_past(
            "a mixed batch, in another order",
            shape,
            Step((prefills[1], decodes[0], chunk, decodes[3], prefills[2])),
            num_blocks=12,
        ),
    ]


def _shared(shape: Shape) -> Sequence[Case]:
    size = shape.block_size
    first = Step((Ask("a", (4, 2), new=2 * size),), judged=False)
    asks = (
        Ask("a", (4, 2, 1), past=2 * size, new=1),
        Ask("b", (4, 2, 6), past=2 * size, new=3, like="a", shared=2 * size),
        Ask("c", (4, 2, 3), past=2 * size, new=1, like="a", shared=2 * size),
    )
    name = "a batch whose requests share two blocks"
    return [
        Case(name, shape, (first, Step(asks))),
        Case(f"{name}, with common_prefix_len", shape, (first, Step(asks, common=2 * size))),
    ]


def _stale(shape: Shape) -> Sequence[Case]:
    size, nothing = shape.block_size, float("nan")
    decodes = (Ask("a", (3,), past=4, new=1), Ask("b", (6, 1), past=size + 2, new=1))
    return [
        one_step("a prefill on fresh memory", shape, Ask("a", (3,), new=5), stale=nothing, spare=7),
        with_past("decode steps on fresh memory", shape, Step(decodes), stale=nothing, spare=7),
        with_past(
            "a chunk on fresh memory",
            shape,
            Step((Ask("c", (3, 5), past=2, new=size),)),
            stale=nothing,
            spare=7,
        ),
    ]


def _reused(shape: Shape) -> Sequence[Case]:
    size = shape.block_size
    last = Ask("b", (3, 1), past=size + 1, new=1)
    steps = (
        Step((Ask("a", (1, 3), new=2 * size),), judged=False),
        Step((Ask("a", (1, 3, 6), past=2 * size, new=1),), judged=False),
        Step((Ask("b", (3, 1), new=size + 1),)),
        Step((last,)),
        Step((attrs.evolve(last, past=size + 2),)),
    )
    return [Case("a request in the blocks of one that has ended", shape, steps)]


def _fused(shape: Shape) -> Sequence[Case]:
    size = shape.block_size
    asks = (Ask("d", (2,), past=4, new=1), Ask("a", (3,), new=3), Ask("h", (5, 1), past=3, new=size))
    name = "with queries, keys and values as views of one fused tensor"
    return [
        with_past(f"a prefill {name}", shape, Step((Ask("a", (3,), new=5),), fused=True)),
        with_past(f"a decode step {name}", shape, Step((Ask("a", (3,), past=5, new=1),), fused=True)),
        with_past(f"a mixed batch {name}", shape, Step(asks, fused=True)),
    ]


def _window(shape: Shape) -> Sequence[Case]:
    size, cases = shape.block_size, list[Case]()
    for window in (1, 4, size + 3):
        one = attrs.evolve(shape, window=window)
        table = (5, 1, 6)
        cases += [
            one_step("a prefill longer than the window", one, Ask("a", table, new=window + 4)),
            with_past("a decode step past the window", one, Step((Ask("a", table, past=window + 5, new=1),))),
            with_past("a chunk past the window", one, Step((Ask("a", table, past=window + 2, new=3),))),
        ]
    one, other = attrs.evolve(shape, window=4), attrs.evolve(shape, window=size + 3)
    blocks, long = (5, 1, 6, 3, 7, 2, 4), min(5 * size + 5, 300)
    for two, past in ((one, 2 * size + 1), (one, 3 * size), (other, 3 * size + 2)):
        # The window begins in a later block than the first.
        cases += [
            with_past(
                "a decode step, blocks past the window", two, Step((Ask("a", blocks, past=past, new=1),))
            ),
            with_past("a chunk, blocks past the window", two, Step((Ask("a", blocks, past=past, new=3),))),
        ]
    return [
        *cases,
        one_step("a prefill over several blocks", one, Ask("a", blocks, new=long)),
        one_step("a prefill over several blocks", other, Ask("a", blocks, new=min(3 * size, 300))),
        with_past(
            "a mixed batch past the window",
            one,
            Step((Ask("d", (2,), past=9, new=1), Ask("e", (3, 4), past=size, new=1), Ask("f", (7,), new=9))),
        ),
    ]


RULES: Final = (
    Rule(
        "heads",
        "Query head h attends with kv head `h // (query heads / kv heads)`: neighbours share one.",
        "Weights are laid out so; with other heads every model with grouped queries is wrong.",
        "Repeat each kv head for its group (`repeat_interleave`), or compute `h // num_queries_per_kv`.",
        STORED,
        _heads,
        only=("heads",),
    ),
    Rule(
        "scale",
        "Scores are multiplied by the `scale` that the implementation was made with, once, before the softmax.",
        "Another scale makes every token attend too broadly or too narrowly, and answers decline without an error.",
        "Multiply by `self.scale` once, and check whether the kernel that you call multiplies by a default of its own.",
        (*STORED, "attention.heads"),
        _scale,
        only=("scale",),
    ),
    Rule(
        "causal",
        "In a prefill a token attends to itself and to all tokens of its request before it, and to nothing else.",
        "A token that sees later ones, or not itself, is computed from another text than the user's.",
        "Mask by position: token i sees token j where j <= i.",
        (*STORED, "attention.heads", "attention.scale"),
        _causal,
    ),
    Rule(
        "decode",
        "In a decode step the new token attends to all `seq_lens` tokens of its request, itself included.",
        "Every token but the first one is generated by such a step.",
        "Store the new key and value first, then read the slots of positions 0 to `seq_lens - 1` by the block table.",
        (*STORED, "attention.causal"),
        _decode,
    ),
    Rule(
        "chunk",
        "A chunk of a prompt attends to what is in the cache and, causally, to itself: the last token of the chunk is "
        "token `seq_lens - 1`.",
        "Long prompts come in chunks, and those after a cached prefix too.",
        "Align the mask to the end: row i of a chunk of n sees `seq_lens - n + i + 1` tokens.",
        (*STORED, "attention.decode"),
        _chunk,
    ),
    Rule(
        "blocks",
        "Token i of a request is in block `block_table[request, i // block_size]`, at offset `i % block_size`, in "
        "whatever order the blocks are.",
        "Blocks are handed out as they become free, so a longer request never has them in order.",
        "Look each block up in the block table, with the block size of the cache's spec.",
        (*STORED, "attention.decode", "attention.chunk"),
        _blocks,
    ),
    Rule(
        "batch",
        "The requests of a batch do not see each other, whatever their lengths and their order.",
        "A batch mixes whatever runs just then; a request must not depend on its neighbours.",
        "Take each request's rows from `query_start_loc`, its length from `seq_lens` and its blocks from its row of "
        "`block_table`, and write its result to its own rows.",
        (*STORED, "attention.blocks"),
        _batch,
    ),
    Rule(
        "shared-blocks",
        "Requests may share blocks of a common prefix, which `common_prefix_len` may announce.",
        "Prefix caching gives all requests with the same system prompt the same blocks.",
        "Read shared blocks like others; where `common_prefix_len` is used, every request attends to the prefix once.",
        BATCHES,
        _shared,
    ),
    Rule(
        "stale-blocks",
        "What is not a token of a request is not read into its result. To show that, the kit fills the cache with NaN "
        "before the first step, as fresh memory may hold it, and lets table entries beyond a request's blocks name any "
        "block.",
        "A fresh cache is memory as it comes, and 0 * NaN is NaN: masking the weight is not enough.",
        "Mask the loaded keys and values too (`masked_fill`, or a masked load), not the scores or weights alone; or read "
        "`seq_lens` tokens only.",
        BATCHES,
        _stale,
    ),
    Rule(
        "reused-blocks",
        "A block that another request had before holds the new request's tokens.",
        "Blocks are reused all the time; what was kept of their old content answers another user's question.",
        "Keep nothing of a block's content outside of `kv_cache` from one step to the next.",
        BATCHES,
        _reused,
    ),
    Rule(
        "strides",
        "Queries, keys and values may be views into one fused tensor, whose rows are further apart than they are wide.",
        "A fused projection gives the three as slices of one tensor, without copying them.",
        "Pass the strides of each tensor to the kernel, or call `.contiguous()` first.",
        BATCHES,
        _fused,
    ),
    Rule(
        "window",
        "With a sliding window of w tokens a token attends to itself and to the w - 1 tokens before it.",
        "A window that is off by one changes every token past it.",
        "See token j from token i where `i - w < j <= i`; or let `supports_sliding_window` say no.",
        BATCHES,
        _window,
    ),
)
"""The checks that run on the plainest shape."""


def register(rule: Rule) -> None:
    """Make a check of a rule."""

    @check(
        f"attention.{rule.name}",
        group="pickers",
        level=Level.COMPONENTS,
        engines=("native",),
        needs=rule.needs,
        why=rule.why,
        hint=rule.hint,
    )
    def run(ctx: CheckContext) -> None:
        cases = rule.problems(base_shape(ctx))
        judge(ctx, cases, says=rule.says, hint=rule.hint, only=rule.only, never=rule.never)

    run.__doc__ = rule.says


for _rule in RULES:
    register(_rule)
