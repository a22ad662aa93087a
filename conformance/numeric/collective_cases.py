"""Calls of a communicator between ranks, what each has to give, and what some mistakes give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import torch

Tensors = Sequence["torch.Tensor"]


@attrs.frozen
class Case:
    """One call, and what it has to give.

    Args:
        name: the call in words, `all_gather(dim=1) of [2, 3] in float32`.
        inputs: of each rank, in host memory.
        call: `(communicator, input) -> result`.
        right: `(inputs, rank) -> what the rank has to get`; None for nothing.
        kept: the input has to be as it was.
        in_place: the input has to hold the result after.
        wrong: by what it looks like, what a mistake gives.
    """

    name: str
    inputs: Tensors
    call: Callable[[Any, Any], Any]
    right: Callable[[Tensors, int], Any]
    kept: bool = True
    in_place: bool = False
    wrong: Mapping[str, Callable[[Tensors, int], Any]] = attrs.field(factory=dict[str, Any])


def _numbers(ranks: int, shape: Sequence[int], dtype: torch.dtype) -> Tensors:
    """Small whole numbers, which every dtype adds up exactly; another set on each rank.

    Where the dtype is one of whole numbers, they are larger than a float32 can tell apart.
    """
    import math

    import torch

    count = math.prod(shape)
    least = -4 if dtype.is_floating_point else 1 << 40
    return [
        ((torch.arange(count) * (rank + 2) + 5 * rank) % 17 + least).reshape(list(shape)).to(dtype)
        for rank in range(ranks)
    ]


def _whole(dtype: torch.dtype) -> bool:
    """Say whether a dtype is one of whole numbers: positions and tokens are moved, and not added up."""
    return not dtype.is_floating_point


def _sum(inputs: Tensors) -> Any:
    return sum(inputs[1:], inputs[0])


def _joined(inputs: Tensors, dim: int) -> torch.Tensor:
    import torch

    return torch.cat(list(inputs), dim=dim)


def _share(whole: torch.Tensor, ranks: int, dim: int, rank: int) -> torch.Tensor:
    return whole.chunk(ranks, dim)[rank]


def all_reduce(ranks: int, dtype: torch.dtype) -> list[Case]:
    """Sums over all ranks."""
    import torch

    wrong: dict[str, Callable[[Tensors, int], Any]] = {
        "the largest were taken instead of the sum": lambda them, rank: torch.stack(list(them)).amax(0),
        "the mean were taken instead of the sum": lambda them, rank: _sum(them) / len(them),
        "nothing had been added: every rank kept its own": lambda them, rank: them[rank],
        "the sum of another rank's were left out": lambda them, rank: (
            _sum(them) - them[(rank + 1) % len(them)]
        ),
        "the last rank were forgotten": lambda them, rank: _sum(them[:-1]),
        "rank 0 were forgotten": lambda them, rank: _sum(them[1:]),
        "this rank's own were added twice": lambda them, rank: _sum(them) + them[rank],
    }
    cases = [
        Case(
            f"all_reduce of {list(shape)} in {dtype}",
            _numbers(ranks, shape, dtype),
            lambda one, given: one.all_reduce(given),
            lambda them, rank: _sum(them),
            kept=False,
            wrong=wrong,
        )
        for shape in ((6,), (3, 4), (2, 3, 5), (1, 257), (), (0, 4), (40, 513))
    ]
    return [] if _whole(dtype) else [*cases, _again(cases[1]), _strided(cases[1])]


def _again(case: Case) -> Case:
    """The same with other numbers: what the first call gave may not change."""
    return attrs.evolve(case, name=f"{case.name}, once more", inputs=[one + 1 for one in case.inputs])


def _strided(case: Case) -> Case:
    """The same with inputs that do not lie one behind the other in memory."""
    return attrs.evolve(
        case,
        name=f"{case.name}, transposed in memory",
        inputs=[one.transpose(-1, -2).contiguous().transpose(-1, -2) for one in case.inputs],
    )


def all_gather(ranks: int, dtype: torch.dtype) -> list[Case]:
    """Joins of all ranks' tensors on every rank."""

    def of(shape: Sequence[int], dim: int, *, said: bool = True) -> Case:
        return Case(
            f"all_gather({f'dim={dim}) of' if said else f'), whose `dim` is {dim} where none is given, of'} {list(shape)} in {dtype}",
            _numbers(ranks, shape, dtype),
            lambda one, given: one.all_gather(given, dim=dim) if said else one.all_gather(given),
            lambda them, rank: _joined(them, dim),
            wrong=_orders(lambda them, rank: _joined(them, dim), dim, len(shape)),
        )

    cases = [of((4,), 0), of((2, 3), 0), of((2, 3), 1), of((2, 3), -1), of((2, 3, 4), 1), of((2, 3, 4), -2)]
    more = [_again(of((2, 3), -1, said=False)), of((2, 3, 4), -3), of((0, 4), 0), of((70, 300), -1)]
    return [*cases[:4], *more[:1]] if _whole(dtype) else [*cases, *more, _strided(cases[2])]


def _orders(
    right: Callable[[Tensors, int], Any], dim: int, dims: int
) -> dict[str, Callable[[Tensors, int], Any]]:
    """What gathering looks like in another order, or along another dimension."""

    def turned(them: Tensors, rank: int) -> Tensors:
        return [*them[rank:], *them[:rank]]

    found: dict[str, Callable[[Tensors, int], Any]] = {
        "the ranks came in reverse order": lambda them, rank: right(them[::-1], rank),
        "each rank put its own first": lambda them, rank: right(turned(them, rank), rank),
        "every rank had sent what this one has": lambda them, rank: right([them[rank]] * len(them), rank),
    }
    for other in range(dims):
        if other != dim % dims:
            found[f"they were joined along dimension {other}"] = _along(other)
    found["they were joined along dimension 0 and viewed in the shape of the result"] = lambda them, rank: (
        _joined(them, 0).reshape(right(them, rank).shape)
    )
    return found


def _along(dim: int) -> Callable[[Tensors, int], Any]:
    return lambda them, rank: _joined(them, dim)


def reduce_scatter(ranks: int, dtype: torch.dtype) -> list[Case]:
    """Shares of sums."""

    def of(shape: Sequence[int], dim: int, *, said: bool = True) -> Case:
        return Case(
            f"reduce_scatter({f'dim={dim}) of' if said else f'), whose `dim` is {dim} where none is given, of'} {list(shape)} "
            f"in {dtype}",
            _numbers(ranks, shape, dtype),
            lambda one, given: one.reduce_scatter(given, dim=dim) if said else one.reduce_scatter(given),
            lambda them, rank: _share(_sum(them), ranks, dim, rank),
            wrong={
                "each rank got the next one's share": lambda them, rank: _share(
                    _sum(them), ranks, dim, (rank + 1) % ranks
                ),
                "the shares were given from the last rank to the first": lambda them, rank: _share(
                    _sum(them), ranks, dim, ranks - 1 - rank
                ),
                "nothing had been added": lambda them, rank: _share(them[rank], ranks, dim, rank),
                "the last rank were forgotten": lambda them, rank: _share(_sum(them[:-1]), ranks, dim, rank),
                "dimension 0 had been divided": lambda them, rank: _share(_sum(them), ranks, 0, rank),
            },
        )

    wide = 2 * ranks
    cases = [
        of((wide,), 0),
        of((wide, 3), 0),
        of((ranks, wide), 1),
        of((ranks, wide), -1),
        of((2, wide, 3), 1),
        of((2, wide, 3), -2),
        _again(of((ranks, wide), -1, said=False)),
        of((70 * ranks, 100), 0),
    ]
    return [] if _whole(dtype) else [*cases, _strided(cases[2])]


def gather(ranks: int, dtype: torch.dtype) -> list[Case]:
    """Joins on one rank."""

    def of(shape: Sequence[int], dst: int, dim: int, *, said: bool = True) -> Case:
        return Case(
            f"gather({f'dst={dst}, dim={dim}) of' if said else f'), with `dst` {dst} and `dim` {dim} where none are given, of'} "
            f"{list(shape)} in {dtype}",
            _numbers(ranks, shape, dtype),
            lambda one, given: one.gather(given, dst=dst, dim=dim) if said else one.gather(given),
            lambda them, rank: _joined(them, dim) if rank == dst else None,
            wrong=_orders(lambda them, rank: _joined(them, dim), dim, len(shape)),
        )

    cases = [of((4,), 0, 0), of((2, 3), 0, -1), of((2, 3), ranks - 1, 0), of((2, 3, 4), 1, 1)]
    cases.append(_again(of((2, 3), 0, -1, said=False)))
    return cases[:3] if _whole(dtype) else cases


def broadcast(ranks: int, dtype: torch.dtype) -> list[Case]:
    """One rank's tensor on every rank."""

    def of(shape: Sequence[int], src: int, *, said: bool = True) -> Case:
        return Case(
            f"broadcast({f'src={src}) of' if said else f'), whose `src` is {src} where none is given, of'} {list(shape)} in {dtype}",
            _numbers(ranks, shape, dtype),
            lambda one, given: one.broadcast(given, src=src) if said else one.broadcast(given),
            lambda them, rank: them[src],
            kept=False,
            in_place=True,
            wrong={
                "rank 0 had sent": lambda them, rank: them[0],
                "nothing had been sent": lambda them, rank: them[rank],
                "the next rank had sent": lambda them, rank: them[(src + 1) % ranks],
            },
        )

    cases = [of((5,), 0), of((2, 3), ranks - 1), of((2, 3), 1), of((), 0), of((0, 4), 0)]
    cases.append(of((2, 3), 0, said=False))
    return cases[:3] if _whole(dtype) else [*cases, _strided(cases[1])]


def send_recv(ranks: int, dtype: torch.dtype) -> list[Case]:
    """Messages from rank to rank."""

    def around(one: Any, given: Any) -> Any:
        """Rank 0 starts; every other rank receives before it sends."""
        if one.rank_in_group == 0:
            one.send(given)
            return one.recv(given.shape, given.dtype)
        got = one.recv(given.shape, given.dtype)
        one.send(given)
        return got

    def across(one: Any, given: Any) -> Any:
        if one.rank_in_group == ranks - 1:
            one.send(given, dst=0)
            return None
        return one.recv(given.shape, given.dtype, src=ranks - 1) if one.rank_in_group == 0 else None

    inputs = _numbers(ranks, (2, 3), dtype)
    return [
        Case(
            f"send to the next rank, and recv from the previous one, [2, 3] in {dtype}",
            inputs,
            around,
            lambda them, rank: them[rank - 1],
            wrong={
                "it came from the next rank": lambda them, rank: them[(rank + 1) % len(them)],
                "it were its own": lambda them, rank: them[rank],
            },
        ),
        Case(
            f"send to the next rank, and recv from the previous one, [2, 3] in {dtype}, with other numbers",
            [one + 1 for one in inputs],
            around,
            lambda them, rank: them[rank - 1],
        ),
        Case(
            f"send(dst=0) on the last rank, and recv(src={ranks - 1}) on rank 0, [2, 3] in {dtype}",
            inputs,
            across,
            lambda them, rank: them[-1] if rank == 0 else None,
        ),
        _strided(
            Case(
                f"send of a tensor to the next rank, [2, 3] in {dtype}",
                inputs,
                around,
                lambda them, rank: them[rank - 1],
            )
        ),
    ]
