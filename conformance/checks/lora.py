"""The picked LoRA wrapper against dense products: every operation, mixed batches, and tokens without an adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from conformance.checks._resolve import resolve_class
from conformance.checks.pickers import asked, says_of
from conformance.context import CheckContext
from conformance.model import Level, Unsupported
from conformance.numeric.lora import (
    INPUTS,
    LONGER,
    MIXED,
    PICKER,
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

_PICKED: Final = (
    "members.kinds",
    "members.engine-calls",
    "identity.enum",
    "identity.device-type",
    "identity.torch-device",
    "device.answers",
    "capabilities.answers",
    "pickers.lora.importable",
    "pickers.lora.surface",
    "pickers.signatures",
    "pickers.complete",
)
TOLD: Final = (*_PICKED, "lora.start")

Problem = Callable[[Driver], Iterator[Answer]]


def wrapper_cls(ctx: CheckContext) -> type:
    """The class that the platform names.

    Raises:
        Skip: the device is not here.
        Unsupported: it names none.
    """
    ctx.need_device()
    name = asked(ctx, PICKER)
    if not name:
        raise Unsupported(f"{PICKER} names no class")
    return resolve_class(ctx, PICKER, name, says_of(PICKER))


def dtypes_of(ctx: CheckContext) -> list[Any]:
    """The usual dtypes that the platform lists, float32 first; else the one that it lists first."""
    import torch

    usual = (torch.float32, torch.bfloat16, torch.float16)
    listed = [one for one in ctx.platform.supported_dtypes if isinstance(one, torch.dtype)]
    return [one for one in usual if one in listed] or listed[:1]


def _rounded(driver: Driver, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as it is once it is in the dtype of the problem."""
    return tensor.to(driver.dtype).double()


def _a(seed: int) -> torch.Tensor:
    return drawn(SLOTS, RANK, INPUTS, seed=seed, width=INPUTS)


def _b(outputs: int, seed: int) -> torch.Tensor:
    return drawn(SLOTS, outputs, RANK, seed=seed, width=RANK)


def _others(slots: Sequence[int]) -> dict[str, list[int]]:
    """Slots that tokens may have been given by mistake, by what it looks like."""
    used = sorted({slot for slot in slots if slot >= 0})
    swapped = {slot: used[-1 - place] for place, slot in enumerate(used)}
    return {
        "every token used the adapter of slot 0": [0 if slot >= 0 else -1 for slot in slots],
        "every token used the adapter of the first token": [slots[0] if slot >= 0 else -1 for slot in slots],
        "the adapters were swapped": [swapped.get(slot, -1) for slot in slots],
        "each token used the adapter of the next slot": [
            (slot + 1) % SLOTS if slot >= 0 else -1 for slot in slots
        ],
        "each token used the adapter of the token before it": [slots[0], *slots[:-1]],
    }


def _shrink(driver: Driver) -> Iterator[Answer]:
    import torch

    slots = driver.batch.slots()
    x = drawn(len(slots), INPUTS, seed=1)
    for count in (1, 3):
        stacks = [_a(10 + one) for one in range(count)]
        y = torch.full((count, len(slots), RANK), 5.0, device=driver.device)
        before = y.clone()
        got = driver.changed("add_shrink", y, driver.put(x), [driver.put(one) for one in stacks], SCALE)

        def dense(
            those: Sequence[int], scale: float = SCALE, parts: Sequence[torch.Tensor] = tuple(stacks)
        ) -> torch.Tensor:
            return torch.stack(
                [product(_rounded(driver, x), _rounded(driver, one), those) * scale for one in parts]
            )

        mistakes = {words: _bind(dense, those) for words, those in _others(slots).items()}
        mistakes["the scale were left out"] = _bind(dense, slots, 1.0)
        mistakes["the scale were applied twice"] = _bind(dense, slots, SCALE * SCALE)
        mistakes["it were twice what is right"] = _bind(dense, slots, 2 * SCALE)
        mistakes["the product were added to what was there"] = _bind(_plus, dense(slots), before)
        mistakes["the slices came in reverse order"] = _bind(dense, slots, SCALE, tuple(stacks[::-1]))
        yield Answer(
            "add_shrink", f"add_shrink with {count} slices", got, dense(slots), before, slots, mistakes
        )


def _bind(func: Callable[..., torch.Tensor], *args: Any) -> Callable[[], torch.Tensor]:
    return lambda: func(*args)


def _plus(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return one + other.double().cpu()


def _expand(driver: Driver) -> Iterator[Answer]:
    import torch

    slots = driver.batch.slots()
    for outputs, offset, adds in (
        ((32,), 0, True),
        ((32, 16, 16), 0, True),
        ((16, 24), 8, True),
        ((32,), 0, False),
    ):
        x = drawn(len(outputs), len(slots), RANK, seed=3)
        stacks = [_b(size, 20 + one) for one, size in enumerate(outputs)]
        width = sum(outputs) + offset + 8
        y = driver.put(drawn(len(slots), width, seed=2))
        before = y.clone()
        got = driver.changed(
            "add_expand",
            y,
            x.to(driver.device),
            [driver.put(one) for one in stacks],
            outputs,
            offset_start=offset,
            add_inputs=adds,
        )
        base = before.double().cpu()

        def dense(
            those: Sequence[int],
            parts: Sequence[torch.Tensor] = tuple(stacks),
            adding: bool = adds,
            start: int = offset,
            x: torch.Tensor = x,
            base: torch.Tensor = base,
        ) -> torch.Tensor:
            result = base.clone()
            for number, part in enumerate(parts):
                add = product(x[number].double(), _rounded(driver, part), those)
                end = start + part.shape[1]
                rows = [row for row, slot in enumerate(those) if slot >= 0]
                kept = result[rows, start:end] if adding else 0
                result[rows, start:end] = kept + add[rows]
                start = end
            return result

        mistakes = {words: _bind(dense, those) for words, those in _others(slots).items()}
        if len({one.shape for one in stacks}) == 1 and len(stacks) > 1:
            mistakes["the slices came in reverse order"] = _bind(dense, slots, tuple(stacks[::-1]))
        mistakes["add_inputs had the other value"] = _bind(dense, slots, tuple(stacks), not adds)
        mistakes["offset_start were 0"] = _bind(dense, slots, tuple(stacks), adds, 0)
        mistakes["nothing had been added"] = _bind(torch.clone, base)
        words = f"add_expand with slices of {list(outputs)}, offset_start {offset}, add_inputs {adds}"
        yield Answer("add_expand", words, got, dense(slots), before, slots, mistakes)


def _added(
    driver: Driver,
    method: str,
    words: str,
    outputs: Sequence[int],
    *,
    rows: Sequence[int],
    single: bool,
    **more: Any,
) -> Answer:
    """Run an operation that shrinks and expands."""
    import torch

    x = drawn(len(rows), INPUTS, seed=4)
    down, up = (
        [_a(30 + one) for one in range(len(outputs))],
        [_b(size, 40 + one) for one, size in enumerate(outputs)],
    )
    y = driver.put(drawn(len(rows), sum(outputs), seed=5))
    before = y.clone()
    stacks_a, stacks_b = [driver.put(one) for one in down], [driver.put(one) for one in up]
    if single:
        got = driver.changed(method, y, driver.put(x), stacks_a[0], stacks_b[0], SCALE, **more)
    else:
        got = driver.changed(method, y, driver.put(x), stacks_a, stacks_b, SCALE, tuple(outputs), **more)
    base = before.double().cpu()

    def dense(those: Sequence[int], scale: float = SCALE) -> torch.Tensor:
        parts = [
            product(product(_rounded(driver, x), _rounded(driver, a), those), _rounded(driver, b), those)
            for a, b in zip(down, up, strict=True)
        ]
        return base + torch.cat(parts, dim=1) * scale

    mistakes = {name: _bind(dense, those) for name, those in _others(rows).items()}
    mistakes["the scale were left out"] = _bind(dense, rows, 1.0)
    mistakes["the scale were applied twice"] = _bind(dense, rows, SCALE * SCALE)
    mistakes["nothing had been added"] = _bind(torch.clone, base)
    mistakes["what was there had been overwritten"] = lambda: dense(rows) - base
    mistakes["the product were added twice"] = _bind(dense, rows, 2 * SCALE)
    return Answer(method, words, got, dense(rows), before, rows, mistakes)


def _linear(driver: Driver) -> Iterator[Answer]:
    import torch

    rows = driver.batch.slots()
    for outputs in ((32,), (32, 16, 16), (64, 64)):
        words = f"add_lora_linear with slices of {list(outputs)}"
        yield _added(driver, "add_lora_linear", words, outputs, rows=rows, single=False)
        for rubbish in (3.0, float("nan")):
            buffer = torch.full((len(outputs), len(rows), RANK), rubbish, device=driver.device)
            told = f"{words} and a buffer that holds {rubbish:g}"
            yield _added(driver, "add_lora_linear", told, outputs, rows=rows, single=False, buffer=buffer)


def _logits(driver: Driver) -> Iterator[Answer]:
    import torch

    rows = driver.batch.slots(of_prompts=True)
    yield _added(driver, "add_lora_logits", "add_lora_logits", (64,), rows=rows, single=True)
    for rubbish in (3.0, float("nan")):
        buffer = torch.full((len(rows), RANK), rubbish, device=driver.device)
        told = f"add_lora_logits with a buffer that holds {rubbish:g}"
        yield _added(driver, "add_lora_logits", told, (64,), rows=rows, single=True, buffer=buffer)


def _embedding(driver: Driver) -> Iterator[Answer]:
    import torch

    slots = driver.batch.slots()
    for adds in (True, False):
        x, up = drawn(len(slots), RANK, seed=6), _b(48, 50)
        y = driver.put(drawn(len(slots), 48, seed=7))
        before = y.clone()
        got = driver.changed("add_lora_embedding", y, driver.put(x), driver.put(up), add_inputs=adds)
        base = before.double().cpu()

        def dense(
            those: Sequence[int],
            adding: bool = adds,
            x: torch.Tensor = x,
            up: torch.Tensor = up,
            base: torch.Tensor = base,
        ) -> torch.Tensor:
            added = product(_rounded(driver, x), _rounded(driver, up), those)
            return base + added if adding else added

        mistakes = {words: _bind(dense, those) for words, those in _others(slots).items()}
        mistakes["add_inputs had the other value"] = _bind(dense, slots, not adds)
        mistakes["nothing had been added"] = _bind(torch.clone, base)
        words = f"add_lora_embedding with add_inputs {adds}"
        yield Answer("add_lora_embedding", words, got, dense(slots), before, slots, mistakes)


@check(
    "lora.start",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_PICKED,
    why="Every layer with adapters goes through one wrapper, which is told of each step before it.",
    hint="Let update_metadata take the mapping of a step, and the operations change `y` or return it, as "
    "can_update_inplace says.",
)
def start(ctx: CheckContext) -> None:
    """The wrapper is made, told of a batch, and hands its results over as `can_update_inplace` says."""
    import torch

    cls = wrapper_cls(ctx)
    driver = make(ctx, cls, dtypes_of(ctx)[0])
    in_place = ctx.platform.can_update_inplace()
    y = driver.put(torch.zeros(len(MIXED.tokens), 32))
    x = driver.put(drawn(len(MIXED.tokens), INPUTS, seed=4))
    stacks = [driver.put(_a(30))], [driver.put(_b(32, 40))]
    returned = driver.call("add_lora_linear", y, x, *stacks, SCALE, (32,))
    given = isinstance(returned, torch.Tensor) and returned is not y
    if in_place and given and not bool(y.any()) and bool(returned.any()):
        raise driver.fail(
            "add_lora_linear",
            "Where `can_update_inplace` says yes, the engine goes on with the tensor that it gave, and does not look at "
            "what is returned.",
            "`add_lora_linear` returned the result and left the tensor that it was given as it was",
            "Add to `y` in place; or let `can_update_inplace` say no.",
        )
    if not in_place and not isinstance(returned, torch.Tensor):
        driver.changed("add_lora_linear", y, x, *stacks, SCALE, (32,))


_RULES: Final[tuple[tuple[str, Problem, tuple[str, ...], str, str, str], ...]] = (
    (
        "shrink",
        _shrink,
        TOLD,
        "`add_shrink` fills slice i of `y` with `(x @ lora_a[i].T) * scale`, with each token's own adapter.",
        "It is the first half of every adapter; its result goes into the second.",
        "Take the weights of `token_slots[token]`, multiply by `scale` once, and overwrite what is in `y`.",
    ),
    (
        "expand",
        _expand,
        (*TOLD, "lora.shrink"),
        "`add_expand` adds `x[i] @ lora_b[i].T` to the columns of slice i, which begin at `offset_start`.",
        "Slices are the parts of a fused projection: queries, keys and values have adapters of their own.",
        "Begin at `offset_start`, go on by `output_slices`, and overwrite only where `add_inputs` is False.",
    ),
    (
        "linear",
        _linear,
        (*TOLD, "lora.shrink", "lora.expand"),
        "`add_lora_linear` adds `(x @ lora_a[i].T) @ lora_b[i].T * scale` to slice i, with each token's own adapter.",
        "All linear layers of a model go through it.",
        "Shrink into the buffer with `scale`, and expand from it into `y`, adding to what is there.",
    ),
    (
        "logits",
        _logits,
        (*TOLD, "lora.linear"),
        "`add_lora_logits` takes the adapter of each row of logits from `prompt_mapping`, not from the tokens.",
        "There are as many rows of logits as requests, not as tokens, so the mapping of tokens gives another's adapter.",
        "Use `prompt_slots` for logits.",
    ),
    (
        "embedding",
        _embedding,
        (*TOLD, "lora.linear"),
        "`add_lora_embedding` adds `x @ lora_b.T`, with each token's own adapter.",
        "Adapters with tokens of their own change the embedding.",
        "Expand once, from `x` as it is, by the slots of the tokens.",
    ),
)
"""By check: its name, its problem, what it needs, the rule, what breaks, and what to change."""


def _register(name: str, problem: Problem, needs: tuple[str, ...], says: str, why: str, hint: str) -> None:
    @check(
        f"lora.{name}",
        group="pickers",
        level=Level.COMPONENTS,
        engines=("native",),
        needs=needs,
        why=why,
        hint=hint,
    )
    def run(ctx: CheckContext) -> None:
        cls = wrapper_cls(ctx)
        for dtype in dtypes_of(ctx):
            driver = make(ctx, cls, dtype)
            _judge(driver, problem, "adapter", says, hint)

    run.__doc__ = says


def _judge(driver: Driver, problem: Problem, rows: str, says: str, hint: str, when: str = "") -> None:
    for answer in problem(driver):
        within = TOLERANCES[str(driver.dtype).removeprefix("torch.")]
        did = wrong(answer, within=within, rows=rows)
        if did:
            raise driver.fail(answer.method, says, f"{when}{did} ({driver.dtype})", hint)


for _row in _RULES:
    _register(*_row)


@check(
    "lora.base-tokens",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*TOLD, "lora.linear", "lora.logits", "lora.embedding"),
    why="Most requests use no adapter; they must not notice that others do.",
    hint="Leave the rows of tokens out whose slot is -1.",
)
def base_tokens(ctx: CheckContext) -> None:
    """Tokens without an adapter come out exactly as they were, beside others and alone."""
    cls = wrapper_cls(ctx)
    says = "A token whose slot is -1 uses no adapter and comes out exactly as it was."
    hint = "Leave the rows of tokens out whose slot is -1; as an index, -1 is the last slot."
    for batch in (MIXED, Batch((0, 0, 0), (0, 0))):
        driver = make(ctx, cls, dtypes_of(ctx)[0], batch)
        for problem in (_expand, _linear, _logits, _embedding):
            chosen = _adding(problem)
            _judge(driver, chosen, "base", says, hint)


def _adding(problem: Problem) -> Problem:
    """A problem without the calls that overwrite."""
    return lambda driver: (answer for answer in problem(driver) if "add_inputs False" not in answer.case)


@check(
    "lora.next-batch",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*TOLD, "lora.linear", "lora.logits"),
    why="Each step has other tokens, and adapters change their slots when others are loaded.",
    hint="Let update_metadata replace all that was derived from the batch before.",
)
def next_batch(ctx: CheckContext) -> None:
    """What `update_metadata` is told of a batch replaces what it was told of the one before."""
    cls = wrapper_cls(ctx)
    says = "After `update_metadata` the operations follow the new batch, and nothing of the one before."
    hint = "Replace in `update_metadata` all that was derived from the mapping: indices, lengths, sorted copies, flags."
    driver = make(ctx, cls, dtypes_of(ctx)[0])
    for number, batch in enumerate((LONGER, Batch((0, 0), (0,)), MIXED, Batch((22,), (22,))), start=2):
        driver.tell(batch)
        for problem in (_linear, _logits):
            if any(batch.slots()) or any(batch.slots(of_prompts=True)):
                _judge(driver, problem, "adapter", says, hint, when=f"in batch {number} of one wrapper, ")
