"""The picked attention backend at work: it takes a step, fills its output, and stores where it is told to."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from conformance.context import CheckContext, short
from conformance.model import Level, Unsupported, Violation
from conformance.numeric.attention_cases import Ask, Case, Shape, Step, with_past
from conformance.numeric.attention_run import Driver, Refused, base_shape, drive
from conformance.numeric.values import numbers
from conformance.registry import check

if TYPE_CHECKING:
    import torch

PICKED: Final = (
    "members.kinds",
    "members.engine-calls",
    "identity.enum",
    "identity.device-type",
    "identity.torch-device",
    "device.answers",
    "device.dtypes",
    "pickers.attn-backend.importable",
    "pickers.attn-backend.surface",
    "pickers.attn-backend.parts",
    "pickers.attn-backend.facts",
    "pickers.attn-backend.selectors",
    "pickers.signatures",
    "pickers.complete",
)
"""Checks whose failure explains that a backend cannot be driven."""

RUNS: Final = (*PICKED, "attention.runs")
_FIRST: Final = Ask("a", (0,), new=5)
_NEXT: Final = Ask("a", (0,), past=5, new=1)


@check(
    "attention.runs",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=PICKED,
    why="Every layer of every step goes through it; what raises here ends the first request.",
    hint="Drive the implementation by hand: build the metadata of a prefill of five tokens, and call `forward`.",
)
def runs(ctx: CheckContext) -> None:
    """The picked backend takes a prefill and a decode step, and gives a tensor like the query."""
    shape = base_shape(ctx)
    ctx.details["shape"] = str(shape)
    driver = _driver(ctx, Case("a prefill and a decode step", shape, ()))
    for step in (Step((_FIRST,)), Step((_NEXT,))):
        driver.run(step)


@check(
    "attention.output",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=RUNS,
    why="The engine hands out the memory for the result and goes on with it; what is not written there is noise.",
    hint="Write every row into the `output` that is given, return it, and allocate only where it is None.",
)
def output(ctx: CheckContext) -> None:
    """`forward` fills the output that it is given and returns it; where none is given it returns the same."""
    import torch

    shape = base_shape(ctx)
    for past, step in ((0, Step((_FIRST,))), (5, Step((_NEXT,)))):
        case = Case("a prefill" if not past else "a decode step", shape, ())
        first = _driver(ctx, case)
        second = _driver(ctx, case)
        if past:
            first.run(Step((_FIRST,)))
            second.run(Step((_FIRST,)))
        result, given = first.run(step)
        alone, _ = second.run(Step(step.asks, given=False))
        if given is None:
            raise Unsupported(f"{first.backend.__name__}.accept_output_buffer says that it takes no output")
        says = "fills the `output` that it is given, and returns it."
        if result is not given and result.data_ptr() != given.data_ptr():
            raise first.fail(
                "forward",
                says,
                f"in {case.name} it returned another tensor than the output that it was given",
                hint="Write `output[...] = …` or `output.copy_(…)`, and `return output`; or say "
                "`accept_output_buffer = False` in the backend.",
            )
        left = int(given.isnan().sum())
        if left and not bool(alone.isnan().any()):
            raise first.fail(
                "forward",
                says,
                f"in {case.name} {left} of {given.numel()} elements of the output that it was given still hold what was "
                "in it before; with `output=None` all of them are computed",
                hint="Write the result of every token into `output`.",
            )
        if not left and not torch.allclose(
            given.double(), alone.reshape(given.shape).double(), rtol=1e-2, atol=1e-2, equal_nan=True
        ):
            raise first.fail(
                "forward",
                says,
                f"in {case.name} with `output=None` it gives {short(numbers(alone)[:3])}…, and fills a given "
                f"output with {short(numbers(given)[:3])}…",
                hint="Compute the same in both cases: overwrite what is in `output`, do not add to it.",
            )


@check(
    "attention.cache-slots",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=RUNS,
    why="Blocks belong to other requests: what is stored in a wrong one changes their answers.",
    hint="Store each token's key and value in `slot_mapping[token]`, block `slot // block_size`, and nowhere else.",
)
def cache_slots(ctx: CheckContext) -> None:
    """A step stores its tokens in the slots that it is told, each in a place of its own, and nothing elsewhere."""
    import torch

    shape = base_shape(ctx)
    size = shape.block_size
    case = Case("a step of one token", shape, (), num_blocks=7, stale=0.5)
    blocks = _blocks_dimension(ctx, shape)
    marks: dict[int, torch.Tensor] = {}
    for block, offset in ((2, 0), (2, size - 1), (3, 0), (5, size // 2)):
        driver = _driver(ctx, case)
        ask = Ask(f"b{block}-{offset}", (block,), past=offset, new=1)
        marks[block * size + offset] = changed = _changed(driver, Step((ask,)))
        _judge_place(driver, blocks, changed, block, f"slot {block * size + offset}, in block {block}")
    driver = _driver(ctx, case)
    for slot, other in itertools.combinations(marks, 2):
        shared = int((marks[slot] & marks[other]).sum())
        # What a layout keeps for a block as a whole, such as a scale, is changed by each of its tokens.
        allowed = min(int(marks[one].sum()) for one in (slot, other)) // 2
        if shared > (allowed if slot // size == other // size else 0):
            raise _misplaced(
                driver,
                f"tokens of the slots {slot} and {other}, stored one at a time on fresh caches, share {shared} of "
                f"{int(marks[slot].sum())} places",
            )
    asks = (
        Ask(f"b2-{size - 1}", (2,), past=size - 1, new=1),
        Ask("b3-0", (3,), new=1),
        Ask(f"b5-{size // 2}", (5,), past=size // 2, new=1),
    )
    together = _changed(driver, Step(asks))
    touched = (2 * size + size - 1, 3 * size, 5 * size + size // 2)
    wanted = torch.stack([marks[slot] for slot in touched]).any(0)
    if bool((together != wanted).any()):
        beyond, missing = int((together & ~wanted).sum()), int((wanted & ~together).sum())
        raise _misplaced(
            driver,
            f"three tokens of three requests in one step: {beyond} elements of the cache changed that none of them "
            f"changes alone, and {missing} that they change alone did not",
        )


def _changed(driver: Driver, step: Step) -> torch.Tensor:
    """Which elements of the cache a step changes."""
    before = driver.cache.clone()
    driver.run(step)
    return driver.cache != before


def _blocks_dimension(ctx: CheckContext, shape: Shape) -> int | None:
    """The dimension of the cache that counts blocks; None where the shape does not tell."""
    driver = _driver(ctx, Case("a cache", shape, (), num_blocks=7))
    other = _driver(ctx, Case("a cache", shape, (), num_blocks=11))
    grown = [
        one
        for one, (a, b) in enumerate(zip(driver.cache.shape, other.cache.shape, strict=False))
        if (a, b) == (7, 11)
    ]
    return grown[0] if len(grown) == 1 else None


def _judge_place(driver: Driver, blocks: int | None, changed: torch.Tensor, block: int, where: str) -> None:
    if not bool(changed.any()):
        raise driver.fail(
            "forward",
            "stores the keys and values of a step in the cache that it is given.",
            f"after a token of {where} nothing in the cache had changed",
            hint="Store the keys and values in `kv_cache` itself, also in a step of one token.",
        )
    if blocks is None:
        return
    rest = [one for one in range(changed.dim()) if one != blocks]
    touched = [index for index, hit in enumerate(changed.any(dim=rest)) if bool(hit)] if rest else []
    if touched != [block]:
        others = [str(one) for one in touched if one != block]
        did = (
            f"changed {_listed(others)} of the cache, which {'is' if len(others) == 1 else 'are'} not its own"
        )
        own = "" if block in touched else f", and nothing in block {block}"
        raise _misplaced(driver, f"a token of {where}, {did}{own}")


def _listed(blocks: list[str]) -> str:
    return f"block {blocks[0]}" if len(blocks) == 1 else f"the blocks {', '.join(blocks)}"


def _misplaced(driver: Driver, did: str) -> Violation:
    return driver.fail(
        "forward",
        "stores each token in its slot, `slot_mapping[token]`, which lies in block `slot // block_size`, and "
        "changes nothing else of the cache.",
        did,
        hint="Compute the place of a token as block `slot // block_size` and offset `slot % block_size`.",
    )


@check(
    "attention.padding",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*RUNS, "attention.output", "attention.cache-slots"),
    why="Batches are padded to sizes that graphs were captured for; a padding row that is stored destroys a block.",
    hint="Leave rows whose slot is negative out where keys and values are stored.",
)
def padding(ctx: CheckContext) -> None:
    """Rows of padding, whose slot is -1, are stored nowhere and change no result."""
    shape = base_shape(ctx)
    prefill = Step((Ask("a", (2,), new=3), Ask("b", (4,), new=2)))
    decode = Step((Ask("c", (2,), past=3, new=1), Ask("d", (4,), past=2, new=1)))
    for name, step in (("a step", prefill), ("a decode step", decode)):
        case = with_past(f"{name} with three rows of padding", shape, step, num_blocks=7, stale=0.5)
        _judge_padding(_driver(ctx, case), _driver(ctx, case), case)


def _judge_padding(plain: Driver, padded: Driver, case: Case) -> None:
    *before, step = case.steps
    for one in before:
        plain.run(one)
        padded.run(one)
    right, _ = plain.run(step)
    got, given = padded.run(Step(step.asks, padding=3))
    wrong = padded.cache != plain.cache
    if bool(wrong.any()):
        raise padded.fail(
            "forward",
            "stores nothing for a row whose slot is negative: it is padding.",
            f"in {case.name} {int(wrong.sum())} elements of the cache are others than without the padding",
            hint="Skip negative slots where keys and values are stored; as an index, -1 is the last slot of the cache.",
        )
    tokens = step.tokens
    result = (got if given is None else given).reshape(tokens + 3, -1)[:tokens].double()
    gap = (result - right.reshape(tokens, -1).double()).abs()
    if not bool((gap <= 1e-2).all() | right.isnan().any()):
        raise padded.fail(
            "forward",
            "gives each token the same result with and without rows of padding behind the batch.",
            f"in {case.name} the result of the tokens before them is off by up to {float(gap.max()):.3g}",
            hint="Take the number of tokens from `num_actual_tokens` or `query_start_loc`, not from the rows of the query.",
        )


def _driver(ctx: CheckContext, case: Case) -> Driver:
    try:
        return drive(ctx, case)
    except Refused as reason:
        raise Unsupported(f"the platform serves no layer of {case.shape}: {reason}") from reason
