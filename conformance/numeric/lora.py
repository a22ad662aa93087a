"""Batches of adapters for a LoRA wrapper, and the dense products that it has to add."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.context import CheckContext, describe, is_a, kind_of
from conformance.model import Unsupported, Violation
from conformance.numeric.attention_run import device_of, part_fails
from conformance.places import quoted

if TYPE_CHECKING:
    import torch

PICKER: Final = "get_punica_wrapper"
SLOTS: Final = 3
RANK: Final = 8
INPUTS: Final = 48
SCALE: Final = 0.375
HELD: Final = (22, None, 11)
"""The adapter in each slot; the empty one holds weights that an earlier adapter has left."""

TOLERANCES: Final = {"float32": 1e-3, "float16": 3e-2, "bfloat16": 1.5e-1}
"""How far an element may be off, by dtype; results have a spread of about 1."""

Dense = Callable[[Sequence[int]], "torch.Tensor"]
"""`slots of the rows -> result`, float64."""


@attrs.frozen
class Batch:
    """The tokens of a step by their adapters.

    Args:
        tokens: adapter number of each token, 0 for none.
        prompts: adapter number of each row of logits.
        is_prefill: the step holds prompts.
        held: the adapter in each slot.
    """

    tokens: tuple[int, ...]
    prompts: tuple[int, ...] = ()
    is_prefill: bool = True
    held: tuple[int | None, ...] = HELD

    def slots(self, *, of_prompts: bool = False) -> list[int]:
        """The slot of each row, -1 for none."""
        rows = self.prompts if of_prompts else self.tokens
        return [self.held.index(one) if one else -1 for one in rows]


MIXED: Final = Batch((11, 11, 0, 22, 0, 22, 11), (22, 0, 11, 11))
LONGER: Final = Batch(
    (22, 0, 11, 22, 22, 0, 0, 11, 11, 22, 22), (0, 11, 22), is_prefill=False, held=(None, 11, 22)
)


def drawn(*shape: int, seed: int, width: int = 1) -> torch.Tensor:
    """Normal numbers of a spread of `width ** -0.5`, float32 in host memory."""
    import torch

    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return numbers * math.sqrt(1 / width)


def product(x: torch.Tensor, weights: torch.Tensor, slots: Sequence[int]) -> torch.Tensor:
    """Multiply each row by the transposed weight of its slot; zero where there is none.

    Args:
        x: `[rows, inputs]`.
        weights: `[slots, outputs, inputs]`.
        slots: of each row.

    Returns:
        float64 `[rows, outputs]`.
    """
    import torch

    result = torch.zeros(len(slots), weights.shape[1], dtype=torch.float64)
    for row, slot in enumerate(slots):
        if slot >= 0:
            result[row] = weights[slot].double() @ x[row].double()
    return result


@attrs.define
class Driver:
    """A wrapper that has been told of a batch.

    Args:
        ctx: of the check.
        wrapper: made as an engine makes it.
        batch: that it knows.
        device: of its tensors.
        dtype: of activations and weights.
        kept: all tensors that it was given, so that none of them takes another's place in memory.
    """

    ctx: CheckContext
    wrapper: Any
    batch: Batch
    device: torch.device
    dtype: torch.dtype
    kept: list[torch.Tensor] = attrs.field(factory=list["torch.Tensor"])

    @property
    def cls(self) -> type:
        """The wrapper's class."""
        found: type = self.wrapper.__class__
        return found

    def tell(self, batch: Batch) -> None:
        """Announce another batch."""
        from platform_abc.components.lora import LoRAMapping

        mapping = LoRAMapping(
            index_mapping=batch.tokens, prompt_mapping=batch.prompts, is_prefill=batch.is_prefill
        )
        self.call("update_metadata", mapping, list(batch.held), SLOTS, 64)
        self.batch = batch

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the wrapper.

        Raises:
            Unsupported: it declines.
            Violation: it raises.
        """
        try:
            with self.ctx.adapter.active(self.ctx.platform):
                return getattr(self.wrapper, method)(*args, **kwargs)
        except NotImplementedError as error:
            raise Unsupported(f"{method} raises {describe(error)}") from error
        except (Exception, SystemExit) as error:
            place = self.ctx.blame(error)
            raise self.fail(
                method,
                f"`{method}` of a LoRA wrapper takes a batch of several adapters.",
                f"it raised {describe(error)}{quoted(place)}",
                f"Correct that line of `{method}`.",
                place,
            ) from error

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor on the device, in the dtype of the problem."""
        made = tensor.to(self.device, self.dtype, copy=True)
        self.kept.append(made)
        return made

    def changed(self, method: str, y: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Call an operation, and return what the engine goes on with: `y`, or what was returned.

        Raises:
            Violation: it changed what it only reads; or, on a platform that cannot change tensors in place, it
                returned none.
        """
        import torch

        read = _tensors(args)
        before = [one.clone() for one in read]
        returned = self.call(method, y, *args, **kwargs)
        for one, was in zip(read, before, strict=True):
            if not torch.equal(one, was):
                raise self.fail(
                    method,
                    f"`{method}` changes `y`, and leaves its input and the weights of the adapters as they are.",
                    f"after it {int((one != was).sum())} of {one.numel()} elements of a tensor of {list(one.shape)} that it "
                    "only reads were others",
                    f"Compute in tensors of your own in `{method}`: other layers read the same input.",
                )
        if self.ctx.platform.can_update_inplace():
            return y
        if not isinstance(returned, torch.Tensor):
            raise self.fail(
                method,
                f"Where `can_update_inplace` says no, `{method}` returns its result.",
                f"it returned {kind_of(returned)}",
                f"Return the tensor with the result from `{method}`, or let `can_update_inplace` say yes and fill the one "
                "that is given.",
            )
        return returned.reshape(y.shape)

    def fail(self, method: str, says: str, did: str, hint: str, place: str = "") -> Violation:
        """A violation that names a method of the wrapper."""
        return part_fails(self.ctx, PICKER, self.cls, method, says=says, did=did, hint=hint, place=place)


def make(ctx: CheckContext, cls: type, dtype: torch.dtype, batch: Batch = MIXED) -> Driver:
    """Make the wrapper as an engine does, and tell it of a batch.

    Raises:
        Violation: making it raised, or telling.
    """
    device = device_of(ctx)
    try:
        with ctx.adapter.active(ctx.platform):
            wrapper = cls(64, 8, device, max_loras=SLOTS)
    except (Exception, SystemExit) as error:
        place = ctx.blame(error)
        raise part_fails(
            ctx,
            PICKER,
            cls,
            "__init__",
            says="A LoRA wrapper is made with the largest step, the largest batch, the device and the number of slots.",
            did=f"it raised {describe(error)}{quoted(place)}",
            hint="Take these arguments, and ignore other keywords.",
            place=place,
        ) from error
    driver = Driver(ctx, wrapper, batch, device, dtype)
    driver.tell(batch)
    return driver


def _tensors(args: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among arguments, and in their lists."""
    import torch

    found: list[torch.Tensor] = []
    for one in args:
        parts: Any = one if is_a(one, list, tuple) else [one]
        found += [part for part in parts if isinstance(part, torch.Tensor)]
    return found


@attrs.frozen
class Answer:
    """What an operation gave, and what is right.

    Args:
        method: that was called.
        case: in words.
        got: as it came.
        right: float64, of the same shape.
        before: what the tensor held before.
        slots: of each row; rows are the first dimension but one.
        mistakes: by what it looks like, what a mistake gives.
    """

    method: str
    case: str
    got: torch.Tensor
    right: torch.Tensor
    before: torch.Tensor
    slots: Sequence[int]
    mistakes: dict[str, Callable[[], torch.Tensor]]


def wrong(answer: Answer, *, within: float, rows: str) -> str:
    """What is wrong with some rows of a result, in words; empty if nothing.

    Args:
        within: how far an element may be off.
        rows: `adapter` for those with one, `base` for those without.
    """
    chosen = [row for row, slot in enumerate(answer.slots) if (slot >= 0) == (rows == "adapter")]
    got, right, before = answer.got.double().cpu(), answer.right, answer.before.double().cpu()
    if rows == "base":
        gap = (got[..., chosen, :] - before[..., chosen, :]).abs()
        if bool((gap == 0).all()):
            return ""
        row = chosen[int(gap.nan_to_num(nan=float("inf")).amax(dim=[*range(gap.dim() - 2), -1]).argmax())]
        return (
            f"{answer.case}: token {row}, which uses no adapter, was changed by up to {float(gap.max()):.3g}"
        )
    gap = (got[..., chosen, :] - right[..., chosen, :]).abs().nan_to_num(nan=float("inf"))
    if bool((gap <= within).all()):
        return ""
    by_row = gap.amax(dim=[*range(gap.dim() - 2), -1])
    row = chosen[int(by_row.argmax())]
    looks = next(
        (
            words
            for words, mistake in answer.mistakes.items()
            if bool(((got - mistake())[..., chosen, :].abs() <= 2 * within).all())
        ),
        "",
    )
    return (
        f"{answer.case}: token {row}, whose adapter is in slot {answer.slots[row]}, is off by up to "
        f"{float(by_row.max()):.3g} (allowed is {within:g}), {int((by_row > within).sum())} of {len(chosen)} tokens with an "
        f"adapter are{f'; it looks as if {looks}' if looks else ''}"
    )
