"""The picked communicator in other groups than one of all ranks: alone, and in a second group with another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from conformance.checks.collectives import (
    JOINED,
    LIMIT,
    MADE,
    PICKER,
    communicator_cls,
    join,
    judge_ends,
    ranks_of,
)
from conformance.context import CheckContext, kind_of, short
from conformance.model import Level, Violation
from conformance.numeric.attention_run import part_fails
from conformance.numeric.ranks import Say, on_ranks
from conformance.numeric.values import numbers
from conformance.registry import check

if TYPE_CHECKING:
    import torch

_ALONE: Final = "In a group of one rank each collective gives what it is given, at once."
_ALONE_HINT: Final = (
    "Return the input where `world_size` is 1, before anything is sent, divided or looked up."
)
_SECOND: Final = (
    "Ranks are those of the group that a communicator was made over, and groups do not share what they keep."
)
_SECOND_HINT: Final = (
    "Keep the group, the rank and buffers on the instance, and take `rank_in_group` of this group: not a rank of the "
    "process, and nothing of the class."
)

_CALLS: Final[tuple[tuple[str, str, Callable[[Any, Any], Any]], ...]] = (
    ("all_reduce", "all_reduce()", lambda one, given: one.all_reduce(given)),
    ("all_gather", "all_gather(dim=0)", lambda one, given: one.all_gather(given, dim=0)),
    ("all_gather", "all_gather()", lambda one, given: one.all_gather(given)),
    ("reduce_scatter", "reduce_scatter(dim=0)", lambda one, given: one.reduce_scatter(given, dim=0)),
    ("gather", "gather()", lambda one, given: one.gather(given)),
    ("broadcast", "broadcast()", lambda one, given: one.broadcast(given)),
    ("barrier", "barrier()", lambda one, given: one.barrier() or given),
)


@check(
    "collectives.alone",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=MADE,
    why="An engine on one device makes the communicator as well, and its layers call it.",
    hint=_ALONE_HINT,
)
def alone(ctx: CheckContext) -> None:
    """In a group of one rank each collective gives what it is given."""
    import torch

    cls = communicator_cls(ctx)
    given = torch.arange(6.0).reshape(2, 3) - 2

    def work(rank: int, folder: Path, say: Say) -> Any:
        one, device = join(ctx, cls, rank, 1, folder, say)
        found: list[tuple[str, list[float]]] = []
        for _, words, call in _CALLS:
            say(words)
            with ctx.adapter.active(ctx.platform):
                answer = call(one, given.to(device, copy=True))
            whole = isinstance(answer, torch.Tensor) and answer.shape == given.shape
            found.append(("" if whole else kind_of(answer), numbers(answer) if whole else []))
        one.destroy()
        return found

    ends = on_ranks(1, work, LIMIT, ctx.blame)
    method = next((method for method, words, _ in _CALLS if ends[0].doing == words), "__init__")
    judge_ends(ctx, cls, ends, method, _ALONE, _ALONE_HINT)
    for (method, words, _), (kind, got) in zip(_CALLS, ends[0].answer, strict=True):
        if kind or got != numbers(given):
            did = f"{words} of {short(numbers(given))}, [2, 3], in a group of one gave {kind or short(got)}"
            raise _fails(ctx, cls, method, _ALONE, did, _ALONE_HINT)


def _fails(ctx: CheckContext, cls: type, method: str, says: str, did: str, hint: str) -> Violation:
    return part_fails(ctx, PICKER, cls, method, says=says, did=did, hint=hint)


@check(
    "collectives.second-group",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(
        *JOINED,
        "collectives.all-reduce",
        "collectives.all-gather",
        "collectives.gather",
        "collectives.broadcast",
    ),
    why="A process is in several groups at once, tensor, pipeline and data parallel, with another rank in each.",
    hint=_SECOND_HINT,
)
def second_group(ctx: CheckContext) -> None:
    """Two communicators of one process, over groups in which the ranks come in another order, do not mix."""
    import torch

    cls, size = communicator_cls(ctx), ranks_of(ctx)

    def own(rank: int) -> torch.Tensor:
        return torch.tensor([[float(rank + 1), 10.0 * (rank + 1)]])

    def work(rank: int, folder: Path, say: Say) -> Any:
        one, device = join(ctx, cls, rank, size, folder, say)
        other, _ = join(ctx, cls, size - 1 - rank, size, folder, say, name="other")
        found: list[tuple[int, str, list[float]]] = []
        for _ in range(2):
            for number, group in enumerate((one, other)):
                for _, words, call in (_CALLS[1], _CALLS[4], _CALLS[5], _CALLS[0]):
                    say(f"{words} in group {number + 1} of two")
                    with ctx.adapter.active(ctx.platform):
                        answer: Any = call(group, own(rank).to(device))
                    found.append((number, words, [] if answer is None else numbers(answer)))
        return found

    ends = on_ranks(size, work, LIMIT, ctx.blame)
    judge_ends(ctx, cls, ends, "__init__", _SECOND, _SECOND_HINT)
    for rank, end in enumerate(ends):
        for number, words, got in end.answer:
            order = list(range(size)) if not number else list(range(size))[::-1]
            right = _right(words, [numbers(own(one)) for one in order], first=rank == order[0])
            if got != right:
                raise _fails(
                    ctx,
                    cls,
                    words.partition("(")[0],
                    _SECOND,
                    f"{words} of [rank + 1, 10 * (rank + 1)] in group {number + 1} of two, whose ranks are the processes "
                    f"{short(order)}, gave process {rank} {short(got or None)}, expected {short(right or None)}",
                    _SECOND_HINT,
                )


def _right(words: str, parts: Sequence[list[float]], *, first: bool) -> list[float]:
    """What a call gives; nothing where it gives None."""
    if words.startswith("all_reduce"):
        return [sum(column) for column in zip(*parts, strict=True)]
    if words.startswith("broadcast"):
        return list(parts[0])
    joined = [one for part in parts for one in part]
    if words.startswith("gather"):
        return joined if first else []
    return joined
