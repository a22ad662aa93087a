"""What an implementation does to its scores: large ones, capped ones, those with a position bias, and no mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from conformance.checks.attention import BATCHES, Rule, register
from conformance.context import CheckContext
from conformance.model import Level, Unsupported
from conformance.numeric.attention_cases import Ask, Case, Shape, Step, one_step, with_past
from conformance.numeric.attention_judge import judge
from conformance.numeric.attention_run import base_shape, pick
from conformance.registry import check

_LARGE: Final = 100.0
"""By how much larger scores are than usual: their exponentials fit no float."""
_CAP: Final = 1.5
"""Scores have a spread of 1."""


def _plain(shape: Shape) -> Sequence[Case]:
    return [
        one_step("a prefill of nine tokens", shape, Ask("a", (1,), new=min(9, shape.block_size))),
        with_past("a decode step", shape, Step((Ask("a", (5, 1), past=shape.block_size + 1, new=1),))),
        with_past("a chunk of three tokens after four", shape, Step((Ask("b", (2, 3), past=4, new=3),))),
    ]


def _large(shape: Shape) -> Sequence[Case]:
    large = attrs.evolve(shape, factor=_LARGE)
    alone = tuple(Ask(f"o{i}", (i,), new=1) for i in range(7))
    found = [*_plain(large), one_step("a batch of requests of one token", large, *alone)]
    return [attrs.evolve(case, name=f"{case.name} with scores of about 100", rough=True) for case in found]


def _capped(shape: Shape) -> Sequence[Case]:
    return _plain(attrs.evolve(shape, cap=_CAP))


def _biased(shape: Shape) -> Sequence[Case]:
    slopes = tuple(2.0 ** -(1 + head) for head in range(shape.heads))
    return _plain(attrs.evolve(shape, slopes=slopes))


RULES: Final = (
    Rule(
        "large-scores",
        "Scores of any size give weights: the largest one is subtracted before the exponential.",
        "Some models have heads with scores beyond 88, where a float32 exponential overflows and the answer is NaN.",
        "Subtract each row's own maximum, which is minus infinity before the first score and not 0, and then take the "
        "exponential.",
        BATCHES,
        _large,
    ),
    Rule(
        "soft-cap",
        "With a `logits_soft_cap` a scaled score passes `cap * tanh(score / cap)` before the softmax.",
        "Models with capped scores answer worse without the cap, and nothing says so.",
        "Apply the cap after the scale; or refuse it in `check_arguments`, with NotSupported.",
        BATCHES,
        _capped,
    ),
    Rule(
        "alibi",
        "With `alibi_slopes` a head's slope times the distance, which is negative, is added to the scaled score.",
        "Models with position biases have no other positions: without them the order of words is lost.",
        "Add `slope * (j - i)` to the score of token j for token i; or refuse the slopes in `check_arguments`, with "
        "NotSupported.",
        BATCHES,
        _biased,
    ),
)
"""The checks of scores that a layer may have."""

for _rule in RULES:
    register(_rule)


_NON_CAUSAL: Final = (
    "Where `causal` of a step's metadata is False, a token attends to all tokens of its request."
)
_MASK: Final = "Leave the mask out where `causal` is False; or let `supports_non_causal` say no."


@check(
    "attention.non-causal",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=BATCHES,
    why="Drafts of several tokens and bidirectional models attend so; a mask that stays hides half of the text.",
    hint=_MASK,
)
def non_causal(ctx: CheckContext) -> None:
    """Where a backend says that it does non-causal attention, a step without the mask has none."""
    shape = base_shape(ctx)
    if not pick(ctx, shape).supports_non_causal():
        raise Unsupported("supports_non_causal says no")
    steps = (
        Step((Ask("a", (1,), new=7),), causal=False),
        Step((Ask("b", (2,), new=4), Ask("c", (5, 3), new=shape.block_size + 2)), causal=False),
    )
    cases = [Case("a step that is not causal", shape, (step,)) for step in steps]
    judge(ctx, cases, says=_NON_CAUSAL, hint=_MASK)
