"""The picked communicator between ranks, each a process of its own, against arithmetic."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.checks._resolve import resolve_class
from conformance.checks.pickers import asked, says_of
from conformance.context import CheckContext, kind_of, short
from conformance.model import Level, Skip, Unsupported
from conformance.numeric.attention_run import part_fails
from conformance.numeric.collective_cases import (
    Case,
    all_gather,
    all_reduce,
    broadcast,
    gather,
    reduce_scatter,
    send_recv,
)
from conformance.numeric.ranks import Ended, Say, on_ranks
from conformance.numeric.values import numbers
from conformance.places import quoted
from conformance.registry import check

if TYPE_CHECKING:
    import torch

PICKER: Final = "get_device_communicator_cls"
LIMIT: Final = 20.0
"""Seconds for one operation in all its cases, with the start of the ranks."""
_TIMEOUT: Final = timedelta(seconds=60)
"""After which the transport itself gives up."""
_KEPT: Final[list[Any]] = []
"""A rank's groups: they last as long as its process, since another rank may still use the other end."""
_PLACE: Final[list[Any]] = []
"""A rank's device, once it has one."""
_LATE: Final = 0.3
"""Seconds that one rank lets the others wait for it."""

MADE: Final = (
    "members.kinds",
    "members.engine-calls",
    "identity.enum",
    "identity.texts",
    "identity.torch-device",
    "device.process-group",
    "device.set-device",
    "pickers.communicator.importable",
    "pickers.communicator.surface",
    "pickers.signatures",
    "pickers.complete",
)
JOINED: Final = (*MADE, "collectives.start")


def communicator_cls(ctx: CheckContext) -> type:
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


def ranks_of(ctx: CheckContext) -> int:
    """How many ranks there are: three on the host, which all of them share, else one for each of two devices.

    Raises:
        Skip: there is one device only.
    """
    import torch

    kind: str = ctx.platform.device_type
    if kind == "cpu":
        return 3
    count: int = getattr(torch, kind).device_count()
    if count < 2:
        raise Skip(
            f"{count} {kind} device, collectives need two", "run the kit on a machine with two devices"
        )
    return 2


def join(
    ctx: CheckContext, cls: type, rank: int, size: int, folder: Path, say: Say, name: str = "kit"
) -> tuple[Any, torch.device]:
    """Make the groups of a rank as a worker does, and the communicator over them.

    Args:
        ctx: of the check.
        cls: of the communicator.
        rank: within the group.
        size: of the group.
        folder: that all ranks share.
        say: says what comes next.
        name: of the group.
    """
    import torch
    from torch._C._distributed_c10d import FileStore, PrefixStore

    from platforms.process_group import make_group

    kind: str = ctx.platform.device_type
    if kind == "cpu":
        device = torch.device("cpu")
    elif _PLACE:
        device = _PLACE[0]  # another group of the same process
    else:
        device = torch.device(kind, rank)
        ctx.platform.set_device(device)
        _PLACE.append(device)
    store = FileStore(str(folder / f"store-{name}"), size)
    say("the group over host memory")
    cpu_group = make_group("the kit", "gloo", PrefixStore("cpu", store), rank, size, _TIMEOUT)
    device_group = cpu_group
    backend: str = ctx.attribute("dist_backend")
    if ctx.overridden("stateless_init_device_torch_dist_pg") or backend != "gloo":
        say("stateless_init_device_torch_dist_pg")
        device_group = ctx.platform.stateless_init_device_torch_dist_pg(
            backend=backend,
            prefix_store=PrefixStore("device", store),
            group_rank=rank,
            group_size=size,
            timeout=_TIMEOUT,
        )
    _KEPT.extend((store, cpu_group, device_group))
    say(f"making {cls.__name__}")
    with ctx.adapter.active(ctx.platform):
        return cls(cpu_group, device=device, device_group=device_group, unique_name=name), device


_LEAVES: Final = (
    "Raise an exception where it cannot go on: no `os._exit`, no exit and no crash of the library. The other ranks wait "
    "for one that is gone, and nobody is told why."
)


def judge_ends(
    ctx: CheckContext, cls: type, ends: Sequence[Ended], method: str, says: str, hint: str
) -> None:
    """Fail if a rank raised, died or hangs.

    Raises:
        Unsupported: it declined.
        Violation: it did one of these.
    """
    for one in sorted(ends, key=lambda end: (end.hung, not end.raised)):
        if one.answer is not None:
            continue
        if one.raised.startswith("NotSupported"):
            raise Unsupported(f"{method}: {one.raised}")
        did = f"rank {one.rank} raised {one.raised}{quoted(one.place)}" if one.raised else ""
        did = did or (f"rank {one.rank} {one.died}" if one.died else "")
        others = [f"rank {end.rank} in {end.doing}" for end in ends if end.hung]
        did = did or f"no end within {LIMIT:g} s: {', '.join(others)}"
        raise part_fails(
            ctx,
            PICKER,
            cls,
            method,
            says=says,
            did=f"{did}, in {one.doing}" if not one.hung else did,
            hint=_LEAVES
            if one.died
            else hint
            if not one.hung
            else "Let every rank take part in the same operations in the same order, and wait for what it has started: "
            "look at ranks that return early, and at a tag, a peer or a group that the others do not use.",
            place=one.place,
        )


@check(
    "collectives.start",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=MADE,
    why="Each rank of a tensor-parallel run makes it when it starts, over groups that the worker has made.",
    hint="Keep the signature of DeviceCommunicatorBase, call `super().__init__`, and use the groups that are given.",
)
def start(ctx: CheckContext) -> None:
    """The communicator is made on every rank, knows its rank and the size, and waits in `barrier`."""
    cls, size = communicator_cls(ctx), ranks_of(ctx)
    says = (
        "A communicator is made over the worker's groups, knows its place, and `barrier` waits for all ranks."
    )
    hint = "Call `super().__init__` with what is given, and let `barrier` wait on `cpu_group`."

    def work(rank: int, folder: Path, say: Say) -> Any:
        one, _ = join(ctx, cls, rank, size, folder, say)
        say("barrier()")
        one.barrier()
        started = time.monotonic()
        if rank == 0:
            time.sleep(_LATE)
        one.barrier()
        waited = time.monotonic() - started
        say("destroy()")
        facts = (one.rank_in_group, one.world_size)
        one.destroy()
        return (facts, waited)

    ends = on_ranks(size, work, LIMIT, ctx.blame)
    judge_ends(ctx, cls, ends, "__init__", says, hint)
    for end in ends:
        facts, waited = end.answer
        if facts != (end.rank, size):
            raise part_fails(
                ctx,
                PICKER,
                cls,
                "__init__",
                says=says,
                did=f"on rank {end.rank} of {size}, rank_in_group is {facts[0]!r} and world_size {facts[1]!r}",
                hint="Leave both to `super().__init__`, which asks the group.",
            )
        if waited < _LATE / 2:
            raise part_fails(
                ctx,
                PICKER,
                cls,
                "barrier",
                says=says,
                did=f"on rank {end.rank} it returned after {waited:.3f} s, although rank 0 came {_LATE:g} s late",
                hint="Let `barrier` wait: `self.cpu_group.barrier().wait()`.",
            )


def _tokens() -> torch.dtype:
    """The dtype of tokens and positions."""
    import torch

    return torch.int64


def _dtypes(ctx: CheckContext) -> list[torch.dtype]:
    import torch

    listed = [one for one in ctx.platform.supported_dtypes if isinstance(one, torch.dtype)]
    return list(dict.fromkeys([*listed, torch.float32]))[:3] if torch.float32 in listed else listed[:3]


_OPERATIONS: Final[tuple[tuple[str, str, Callable[[int, Any], list[Case]], str, str, str], ...]] = (
    (
        "all-reduce",
        "all_reduce",
        all_reduce,
        "`all_reduce` gives on every rank the sum over all ranks, in the shape and dtype of the input.",
        "Every row-parallel layer adds up its parts with it: a part that is missing is a part of the model.",
        "Sum over the whole `device_group`; copy an input that is not contiguous first, and back.",
    ),
    (
        "all-gather",
        "all_gather",
        all_gather,
        "`all_gather` joins the tensors of all ranks along `dim`, in the order of the ranks, on every rank.",
        "Logits are joined so over the vocabulary: in another order each token gets another's score.",
        (
            "Gather into one tensor a rank and `torch.cat(parts, dim=dim)`; a negative dim counts from the end, and without "
            "one it is -1."
        ),
    ),
    (
        "reduce-scatter",
        "reduce_scatter",
        reduce_scatter,
        "`reduce_scatter` gives each rank its own share, along `dim`, of the sum over all ranks.",
        "Sequence-parallel layers hand on their results so.",
        "Sum, and give rank r the r-th of equal parts along `dim`.",
    ),
    (
        "gather",
        "gather",
        gather,
        (
            "`gather` joins the tensors of all ranks along `dim`, in the order of the ranks, on rank `dst`; the others get "
            "None."
        ),
        "The driver samples from logits that are gathered so, and the other ranks test for None.",
        "Return the joined tensor where `rank_in_group == dst`, and None elsewhere.",
    ),
    (
        "broadcast",
        "broadcast",
        broadcast,
        "`broadcast` fills the tensor on every rank with that of rank `src`, in place, and returns it.",
        "The driver tells the other ranks what to run with it.",
        "Take `src` as a rank within the group, and copy the result into the tensor that was given.",
    ),
    (
        "send-recv",
        "send",
        send_recv,
        "`send` and `recv` move a tensor between two ranks of the group, by default to the next and from the previous.",
        "Stages of a pipeline hand on their activations so.",
        "With no rank given, send to `self.next_rank()` and receive from `self.previous_rank()`; wait for what comes.",
    ),
)
"""By check: its name, the method, its cases, the rule, what breaks, and what to change."""


def _register(
    name: str, method: str, cases: Callable[[int, Any], list[Case]], says: str, why: str, hint: str
) -> None:
    @check(
        f"collectives.{name}",
        group="pickers",
        level=Level.COMPONENTS,
        engines=("native",),
        needs=JOINED,
        why=why,
        hint=hint,
    )
    def run(ctx: CheckContext) -> None:
        cls, size = communicator_cls(ctx), ranks_of(ctx)
        chosen = [case for dtype in (*_dtypes(ctx), _tokens()) for case in cases(size, dtype)]

        def work(rank: int, folder: Path, say: Say) -> Any:
            one, device = join(ctx, cls, rank, size, folder, say)
            answers: list[tuple[Any, Called]] = []
            for case in chosen:
                say(case.name)
                answers.append(_called(ctx, one, case, rank, device))
            say("destroy()")
            one.destroy()
            return [attrs.evolve(told, later=_values(result)) for result, told in answers]

        ends = on_ranks(size, work, LIMIT, ctx.blame)
        judge_ends(ctx, cls, ends, method, says, hint)
        for number, case in enumerate(chosen):
            did = _wrong(case, [end.answer[number] for end in ends])
            if did:
                raise part_fails(ctx, PICKER, cls, method, says=says, did=f"{case.name}: {did}", hint=hint)

    run.__doc__ = says


@attrs.frozen
class Called:
    """What a call gave on one rank, as plain values.

    Args:
        kind: what the result is where it is no tensor; empty for a tensor and for None.
        shape: of the result; None where it is None.
        dtype: of it, in words.
        values: its elements.
        after: the elements of the input after the call.
        later: the elements of the result after all other calls.
    """

    kind: str
    shape: tuple[int, ...] | None
    dtype: str
    values: list[float]
    after: list[float]
    later: list[float] = attrs.field(factory=list[float])


def _values(result: object) -> list[float]:
    import torch

    return numbers(result) if isinstance(result, torch.Tensor) else []


def _called(ctx: CheckContext, one: Any, case: Case, rank: int, device: torch.device) -> tuple[Any, Called]:
    """Call, and return the result as it came, and what there is to say of it."""
    import torch

    given = case.inputs[rank].to(device)
    if given.stride() == case.inputs[rank].stride():
        given = given.clone(memory_format=torch.preserve_format)
    with ctx.adapter.active(ctx.platform):
        result = case.call(one, given)
    after = numbers(given)
    if result is None:
        return None, Called("", None, "", [], after)
    if not isinstance(result, torch.Tensor):
        return result, Called(kind_of(result), None, "", [], after)
    return result, Called("", tuple(result.shape), str(result.dtype), numbers(result), after)


def _wrong(case: Case, got: Sequence[Called]) -> str:
    """What is wrong with the results of a case, in words; empty if nothing."""
    for rank, one in enumerate(got):
        right: Any = case.right(case.inputs, rank)
        if one.kind or (one.shape is None) != (right is None):
            shown = one.kind or ("None" if one.shape is None else f"a tensor of {list(one.shape)}")
            return f"rank {rank} got {shown}, expected {'None' if right is None else f'a tensor of {list(right.shape)}'}"
        if right is None:
            continue
        if one.shape != tuple(right.shape) or one.dtype != str(right.dtype):
            return (
                f"rank {rank} got {list(one.shape or ())} in {one.dtype}, expected {list(right.shape)} in {right.dtype}"
                f"{_looks(case, got)}"
            )
        if one.values != numbers(right):
            return (
                f"rank {rank} got {short(one.values[:6])}, expected {short(numbers(right)[:6])}"
                f"{_looks(case, got)}"
            )
        if case.in_place and one.after != one.values:
            return f"rank {rank} got the right tensor, but the one that was given still holds {short(one.after[:6])}"
        if case.kept and one.after != numbers(case.inputs[rank]):
            return f"after it the input of rank {rank} was {short(one.after[:6])}, before it was another"
        if one.later != one.values:
            return (
                f"rank {rank} got the right tensor, and after other calls it held {short(one.later[:6])} instead of "
                f"{short(one.values[:6])}: a later call has written to what an earlier one returned"
            )
    return ""


def _looks(case: Case, got: Sequence[Called]) -> str:
    for words, mistake in case.wrong.items():
        results = [mistake(case.inputs, rank) for rank in range(len(got))]
        pairs = [
            (one, result)
            for rank, (one, result) in enumerate(zip(got, results, strict=True))
            if case.right(case.inputs, rank) is not None
        ]
        if all(one.values == numbers(result) for one, result in pairs):
            return f"; it looks as if {words}"
    return ""


for _row in _OPERATIONS:
    _register(*_row)
