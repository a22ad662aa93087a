"""Attention layers beside each other: they share the metadata of a step and nothing else, and leave it as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from conformance.checks.attention import BATCHES
from conformance.context import CheckContext
from conformance.model import Level, Unsupported
from conformance.numeric.attention_cases import Ask, Case, Step, with_past
from conformance.numeric.attention_judge import allowed, looks_off
from conformance.numeric.attention_reference import attend, references
from conformance.numeric.attention_run import Driver, Refused, base_shape, drive, ordered, pick, run_layers
from conformance.registry import check

if TYPE_CHECKING:
    import torch

_HINT: Final = (
    "Change nothing in the metadata in `forward`, and keep what belongs to one layer on its implementation: not on the "
    "class, and not by the number of a block alone."
)


def _renamed(case: Case, suffix: str) -> Case:
    """The same problem with other tokens."""
    steps = [
        attrs.evolve(step, asks=tuple(attrs.evolve(ask, name=ask.name + suffix) for ask in step.asks))
        for step in case.steps
    ]
    return attrs.evolve(case, steps=tuple(steps))


@check(
    "attention.layers",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=BATCHES,
    why="A model has dozens of layers, and a step's metadata is built once for all of them.",
    hint=_HINT,
)
def layers(ctx: CheckContext) -> None:
    """Layers that share the metadata of their steps give what each of them gives alone."""
    shape = base_shape(ctx)
    size = shape.block_size
    asks = (Ask("d", (2,), past=4, new=1), Ask("e", (7, 1), past=size, new=1), Ask("a", (5, 3), new=size + 2))
    first = with_past("a mixed batch", shape, Step(asks))
    builder_cls: type = pick(ctx, shape).get_builder_cls()
    first = attrs.evolve(first, steps=tuple(ordered(builder_cls, first.steps)))
    cases = [first, _renamed(first, " of the second layer")]
    try:
        results = run_layers(ctx, cases)
    except Refused as reason:
        raise Unsupported(str(reason)) from reason
    for number, (case, got) in enumerate(zip(cases, results, strict=True), start=1):
        for (step, stores), (_, result) in zip(references(case), got, strict=True):
            did = looks_off(case, step, result, attend(shape, step, stores), allowed(ctx, case))
            if did:
                raise drive(ctx, case).fail(
                    "forward",
                    "runs on metadata that other layers run on as well, and on the cache of its own layer.",
                    f"of two layers that run on the same metadata one after the other, layer {number} is off {did}; "
                    "a layer by itself is right",
                    hint=_HINT,
                )


@check(
    "attention.inputs-kept",
    group="pickers",
    level=Level.COMPONENTS,
    severity="should",
    engines=("native",),
    needs=(*BATCHES, "attention.strides"),
    why="The engine declares attention as an op that writes to its output alone, and a compiler counts on that.",
    hint="Scale or convert into tensors of your own; `output` and `kv_cache` are what is written.",
)
def inputs_kept(ctx: CheckContext) -> None:
    """A step leaves the queries, keys and values that it is given as they are."""
    shape = base_shape(ctx)
    asks = (Ask("d", (2,), past=4, new=1), Ask("a", (5,), new=3))
    for fused in (False, True):
        case = with_past("a mixed batch", shape, Step(asks, fused=fused))
        driver = drive(ctx, case)
        steps = ordered(driver.builder.__class__, case.steps)
        for step in steps:
            driver.run(step)
        assert driver.given is not None
        before = driver.inputs(steps[-1])
        for name, now, was in zip(("query", "key", "value"), driver.given, before, strict=True):
            _judge_kept(driver, name, now, was)


def _judge_kept(driver: Driver, name: str, now: torch.Tensor, was: torch.Tensor) -> None:
    changed = now != was
    if bool(changed.any()):
        raise driver.fail(
            "forward",
            "writes to the output and to the cache, and to nothing else that it is given.",
            f"in {driver.case.name} ({driver.case.shape}) {int(changed.sum())} of {now.numel()} elements of `{name}` "
            "were others afterwards",
            hint=f"Compute into a tensor of your own: `{name} = {name} * …`, not `{name}.mul_(…)`.",
        )
