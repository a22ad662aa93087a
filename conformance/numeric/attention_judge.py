"""Judges what came out of an attention backend: how far off, where the worst element is, and what it looks like."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from conformance.context import CheckContext
from conformance.model import Unsupported, Violation
from conformance.numeric.attention_cases import Case, Step
from conformance.numeric.attention_reference import READINGS, Reading, Store, attend, references
from conformance.numeric.attention_run import PICKER, Refused, ordered, part_fails, pick, run_case

if TYPE_CHECKING:
    import torch

    from conformance.numeric.attention_cases import Shape

TOLERANCES: Final[Mapping[str, float]] = {"float32": 2e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""By dtype: how far an element may be off; queries, keys and values are drawn from a normal distribution."""

_FAR: Final = 0.5
_MANY: Final = 0.2
"""In a rough problem an element is off by more than the one, and more than this share of all are."""

_TENSOR_CORES: Final = 1e-2
"""The same for float32 on a device that may multiply with fewer bits of it."""


@attrs.frozen
class Off:
    """A step whose result is off.

    Args:
        case: the problem.
        step: of it.
        got: float64 `[T, H, D]`.
        right: as `got`.
        stores: states of the cache that it may have been computed from.
        allowed: how far an element may be off.
    """

    case: Case
    step: Step
    got: torch.Tensor
    right: torch.Tensor
    stores: Mapping[str, Store]
    allowed: float

    def words(self) -> str:
        """Where the worst element is, and what is right there."""
        gap = (self.got - self.right).abs().nan_to_num(nan=float("inf"))
        shape = self.case.shape
        row, head, column = _at(int(gap.flatten().argmax()), shape.heads, shape.head_size)
        ask, position = self.step.rows()[row]
        wrong, tokens = int((gap > self.allowed).sum()), self.step.rows()
        rows = int((gap > self.allowed).flatten(1).any(1).sum())
        return (
            f"in {self.case.name} ({shape}): request {ask.name!r}, its token {position} ({ask.past} were in the "
            f"cache), query head {head}, element {column}: {float(self.got[row, head, column]):.4g} instead of "
            f"{float(self.right[row, head, column]):.4g}; an element in {_coarsest(shape)} may be off by "
            f"{self.allowed:g}, and {wrong} of {gap.numel()} are off by more, in {rows} of {len(tokens)} tokens"
        )


def _at(index: int, heads: int, head_size: int) -> tuple[int, int, int]:
    return index // (heads * head_size), index // head_size % heads, index % head_size


def allowed(ctx: CheckContext, case: Case) -> float:
    """How far an element may be off on the platform's device."""
    if case.rough:
        return _FAR
    dtype = _coarsest(case.shape)
    if dtype == "float32" and ctx.platform.device_type != "cpu":
        return _TENSOR_CORES
    return TOLERANCES[dtype]


def judgeable(cache_dtype: str) -> bool:
    """Say whether it is known how far off a result is when keys and values are stored so."""
    return cache_dtype in TOLERANCES


def _coarsest(shape: Shape) -> str:
    stored = shape.dtype if shape.cache_dtype == "auto" else shape.cache_dtype
    return max((shape.dtype, stored), key=lambda one: TOLERANCES[one])


def off(ctx: CheckContext, case: Case) -> list[Off]:
    """Run a problem, and return the steps whose result is off.

    Raises:
        Refused: the platform serves no layer of this shape.
        Violation: a step raised.
    """
    # The reference goes through the requests in the order in which the backend gets them.
    builder_cls: type = pick(ctx, case.shape).get_builder_cls()
    case = attrs.evolve(case, steps=tuple(ordered(builder_cls, case.steps)))
    results = run_case(ctx, case)
    within = allowed(ctx, case)
    found: list[Off] = []
    judged = [(step, stores) for step, stores in references(case) if step.judged]
    for (step, got), (_, stores) in zip(results, judged, strict=True):
        right = attend(case.shape, step, stores)
        if _is_off(case, got, right, within):
            found.append(Off(case, step, got, right, stores, within))
    return found


def looks_off(case: Case, step: Step, got: torch.Tensor, right: torch.Tensor, within: float) -> str:
    """Where a result is off, in words; empty if it is not."""
    if not _is_off(case, got, right, within):
        return ""
    return Off(case, step, got, right, {}, within).words()


def _is_off(case: Case, got: torch.Tensor, right: torch.Tensor, within: float) -> bool:
    if not case.rough:
        return _differs(got, right, within)
    broken = ~got.isfinite() | ((got == 0) & (right.abs() > within))
    far = (got - right).abs() > within
    return bool(broken.any()) or float(far.double().mean()) > _MANY


def _differs(got: torch.Tensor, right: torch.Tensor, within: float) -> bool:
    gap = (got - right).abs()
    return not bool((gap <= within).all())


def reading_of(those: Sequence[Off]) -> Reading | None:
    """The one mistake that explains every step that is off; None if none of those that are known does."""
    for reading in READINGS:
        if all(_explains(reading, one) for one in those):
            return reading
    return None


def _explains(reading: Reading, one: Off) -> bool:
    alike = attend(one.case.shape, one.step, one.stores, reading)
    # A mistake that changes nothing in a problem explains nothing there.
    return _differs(alike, one.right, one.allowed) and not _differs(
        one.got.nan_to_num(nan=0.0), alike, 2 * one.allowed
    )


def looks(those: Sequence[Off]) -> str:
    """What the steps that are off look like, as the end of a sentence; empty if like nothing that is known."""
    reading = reading_of(those)
    if reading is not None:
        return f"; it looks as if {reading.words}"
    one = those[0]
    if one.case.rough and not bool(one.got.isfinite().all()):
        return "; it looks as if exponentials of such scores had overflowed, or had all become zero"
    if bool(one.got.isnan().any()):
        return _of_nan(one)
    if not bool(one.got.any()):
        return "; it is zero everywhere"
    other = _of_another(one)
    return f"; it looks as if {other}" if other else ""


def _of_nan(one: Off) -> str:
    """Where NaN in a result can come from."""
    before = "the output held NaN before the step, and is not written there"
    if math.isnan(one.case.stale):
        return (
            "; the NaN in it comes from the cache, which the kit has filled with NaN on purpose where no token is "
            f"stored: it was read there and not masked (or else {before})"
        )
    return f"; there is NaN in it, which the cache held nowhere; it may be that {before}"


def _of_another(one: Off) -> str:
    """Say that a request got what another one should have, if that is so."""
    starts = [0]
    for ask in one.step.asks:
        starts.append(starts[-1] + ask.new)
    for place, ask in enumerate(one.step.asks):
        got = one.got[starts[place] : starts[place + 1]]
        if not _differs(got, one.right[starts[place] : starts[place + 1]], one.allowed):
            continue
        for other, its in enumerate(one.step.asks):
            right = one.right[starts[other] : starts[other + 1]]
            if other != place and right.shape == got.shape and not _differs(got, right, one.allowed):
                return f"request {ask.name!r} got what request {its.name!r} should have"
    return ""


def judge(
    ctx: CheckContext,
    cases: Sequence[Case],
    *,
    says: str,
    hint: str,
    only: Sequence[str] = (),
    never: Sequence[str] = (),
) -> None:
    """Run problems, and fail where a result is off.

    Args:
        cases: the problems.
        says: the rule.
        hint: what to change.
        only: the families of mistakes that are told here; what looks like anything else is another check's. Empty for
            all.
        never: the families that another check tells.

    Raises:
        Unsupported: the platform serves no layer of any of these shapes.
        Violation: a result is off, or a step raised.
    """
    found: list[Off] = []
    refused: list[str] = []
    for case in cases:
        try:
            found += off(ctx, case)
        except Refused as reason:
            refused.append(str(reason))
    if len(refused) == len(cases):
        raise Unsupported(f"the platform serves no such layer: {refused[0]}")
    if not found:
        return
    reading = reading_of(found)
    family = reading.family if reading else ""
    if (only and family not in only) or family in never:
        ctx.details["off"] = f"it looks like a fault of another kind: {looks(found)}"
        return
    raise fault(ctx, found, says=says, hint=hint, of=len(cases))


def fault(ctx: CheckContext, found: Sequence[Off], *, says: str, hint: str, of: int) -> Violation:
    """Make the violation of results that are off."""
    backend = pick(ctx, found[0].case.shape)
    cls: type = backend.get_impl_cls()
    more = f"; {len(found)} of {of} problems of this kind are off" if of > 1 else ""
    return part_fails(
        ctx, PICKER, cls, "forward", says=says, did=f"{found[0].words()}{looks(found)}{more}", hint=hint
    )
