"""The picked LoRA wrapper with weights of other shapes, and with adapters that are loaded over others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from conformance.checks.lora import TOLD, dtypes_of, wrapper_cls
from conformance.context import CheckContext
from conformance.model import Level
from conformance.numeric.lora import (
    INPUTS,
    MIXED,
    RANK,
    SCALE,
    SLOTS,
    TOLERANCES,
    Answer,
    Batch,
    Driver,
    drawn,
    make,
    product,
    wrong,
)
from conformance.registry import check

if TYPE_CHECKING:
    import torch

_SHAPES: Final = (
    (16, 96, (64,), 7),
    (64, 200, (100, 36), 7),
    (1, 48, (40,), 7),
    (8, 300, (320, 80, 80), 7),
    (32, 64, (48,), 40),
)
"""Rank, inputs, outputs of each slice, and tokens."""

_METHOD: Final = "add_lora_linear"
_SHAPES_SAY: Final = f"`{_METHOD}` takes any rank, any number of inputs, outputs and tokens."
_SHAPES_HINT: Final = "Round up where a kernel wants a power of 2, mask the rest, and walk through all tiles."
_LOADED_SAY: Final = "The weights of a slot are those that are in the stack when an operation is called."
_LOADED_HINT: Final = (
    "Keep no copy of the weights, packed or not, by the address of their stack: loading writes into it."
)


def _run(
    driver: Driver,
    words: str,
    x: torch.Tensor,
    down: Sequence[torch.Tensor],
    up: Sequence[torch.Tensor],
    stacks: tuple[list[torch.Tensor], list[torch.Tensor]],
) -> Answer:
    """Call the operation with stacks that hold the weights `down` and `up`."""
    import torch

    slots = driver.batch.slots()
    y = driver.put(drawn(len(slots), sum(one.shape[1] for one in up), seed=5))
    before = y.clone()
    got = driver.changed(
        _METHOD, y, driver.put(x), stacks[0], stacks[1], SCALE, tuple(one.shape[1] for one in up)
    )

    def wide(one: torch.Tensor) -> torch.Tensor:
        return one.to(driver.dtype).double()

    parts = [product(product(wide(x), wide(a), slots), wide(b), slots) for a, b in zip(down, up, strict=True)]
    right = before.double().cpu() + torch.cat(parts, dim=1) * SCALE
    return Answer(_METHOD, words, got, right, before, slots, {})


def _weights(
    rank: int, inputs: int, outputs: Sequence[int], seed: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    down = [drawn(SLOTS, rank, inputs, seed=seed + one, width=inputs) for one in range(len(outputs))]
    up = [drawn(SLOTS, size, rank, seed=seed + 10 + one, width=rank) for one, size in enumerate(outputs)]
    return down, up


def _stacks(
    driver: Driver, down: Sequence[torch.Tensor], up: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    return [driver.put(one) for one in down], [driver.put(one) for one in up]


def _of_shapes(driver: Driver) -> Iterator[Answer]:
    for rank, inputs, outputs, tokens in _SHAPES:
        numbers = tuple((11, 22, 0, 11, 0, 22, 22)[token % 7] for token in range(tokens))
        driver.tell(Batch(numbers, (11,)))
        down, up = _weights(rank, inputs, outputs, seed=60)
        words = (
            f"{_METHOD} of {tokens} tokens with rank {rank}, {inputs} inputs and slices of {list(outputs)}"
        )
        yield _run(driver, words, drawn(tokens, inputs, seed=6), down, up, _stacks(driver, down, up))


def _judge(driver: Driver, answer: Answer, says: str, hint: str) -> None:
    within = TOLERANCES[str(driver.dtype).removeprefix("torch.")]
    did = wrong(answer, within=within, rows="adapter") or wrong(answer, within=within, rows="base")
    if did:
        raise driver.fail(_METHOD, says, f"{did} ({driver.dtype})", hint)


@check(
    "lora.shapes",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*TOLD, "lora.linear", "lora.base-tokens"),
    why="Users bring adapters of ranks from 1 to 256, for layers of every width.",
    hint=_SHAPES_HINT,
)
def shapes(ctx: CheckContext) -> None:
    """Adapters of several ranks, for layers of several widths and steps of many tokens, are added as dense products."""
    cls = wrapper_cls(ctx)
    for dtype in dtypes_of(ctx):
        driver = make(ctx, cls, dtype)
        for answer in _of_shapes(driver):
            _judge(driver, answer, _SHAPES_SAY, _SHAPES_HINT)


@check(
    "lora.reloaded",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*TOLD, "lora.linear", "lora.base-tokens"),
    why="An adapter that is loaded takes the place of another, in the same memory.",
    hint=_LOADED_HINT,
)
def reloaded(ctx: CheckContext) -> None:
    """Weights that are written into a stack between two steps count from the next step on."""
    driver = make(ctx, wrapper_cls(ctx), dtypes_of(ctx)[0])
    outputs = (32, 16)
    x = drawn(len(MIXED.tokens), INPUTS, seed=6)
    stacks = _stacks(driver, *_weights(RANK, INPUTS, outputs, seed=60))
    for number in (1, 2, 3):
        down, up = _weights(RANK, INPUTS, outputs, seed=60 * number)
        for whole, parts in zip(stacks, (down, up), strict=True):
            for stack, part in zip(whole, parts, strict=True):
                stack.copy_(driver.put(part))
        driver.tell(MIXED)
        words = f"after adapters were loaded over others {number - 1} times, {_METHOD}"
        _judge(driver, _run(driver, words, x, down, up, stacks), _LOADED_SAY, _LOADED_HINT)


_EMPTY: Final = (
    "`add_shrink` leaves zeros in the rows of tokens without an adapter, whatever was in the buffer."
)
_EMPTY_HINT: Final = "Fill `y` with zeros in `add_shrink`, or the rows whose slot is -1."


@check(
    "lora.shrink-base",
    group="pickers",
    level=Level.COMPONENTS,
    severity="should",
    engines=("native",),
    needs=(*TOLD, "lora.shrink"),
    why="The buffer is memory as it comes, and whoever expands from it adds what is in these rows.",
    hint=_EMPTY_HINT,
)
def shrink_base(ctx: CheckContext) -> None:
    """Rows of tokens without an adapter come out of `add_shrink` as zeros."""
    import torch

    driver = make(ctx, wrapper_cls(ctx), dtypes_of(ctx)[0])
    slots = MIXED.slots()
    x, weights = drawn(len(slots), INPUTS, seed=1), drawn(SLOTS, RANK, INPUTS, seed=10, width=INPUTS)
    for rubbish in (5.0, float("nan")):
        y = torch.full((1, len(slots), RANK), rubbish, device=driver.device)
        got = driver.changed("add_shrink", y, driver.put(x), [driver.put(weights)], SCALE)
        for row in [row for row, slot in enumerate(slots) if slot < 0]:
            if bool((got[0, row] != 0).any()):
                raise driver.fail(
                    "add_shrink",
                    _EMPTY,
                    f"token {row}, which uses no adapter, had {float(got[0, row, 0]):g} in its row, and the buffer held "
                    f"{rubbish:g} before",
                    _EMPTY_HINT,
                )
