"""Calls of kernels that engines have, and what each has to give: norms, gates, rotations, slots, cache writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    import torch

Arguments = tuple[Any, ...]
Compute = Callable[[Arguments], "Sequence[torch.Tensor]"]


@attrs.frozen
class Problem:
    """One call of a kernel.

    Args:
        words: the call in words.
        arguments: in host memory; tensors among them go to the device.
        right: `arguments -> results`, float64; for a kernel that returns nothing, what its last tensors hold after.
        changes: the positions of arguments that the kernel fills; empty for one that returns its result.
        mistakes: by what it looks like, what a mistake gives.
    """

    words: str
    arguments: Arguments
    right: Compute
    changes: tuple[int, ...] = ()
    mistakes: Mapping[str, Compute] = attrs.field(factory=dict[str, Any])


def _drawn(*shape: int, seed: int, dtype: Any) -> torch.Tensor:
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _normed(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    import torch

    wide = x.double()
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon) * weight.double()


def _norm_mistakes() -> dict[str, Compute]:
    import torch

    def centred(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> Sequence[torch.Tensor]:
        wide = x.double() - x.double().mean(-1, keepdim=True)
        return [_normed(wide, weight, epsilon)]

    return {
        "the weight were left out": lambda a: [_normed(a[0], torch.ones_like(a[1]), a[2])],
        "1 were added to the weight": lambda a: [_normed(a[0], a[1] + 1, a[2])],
        "epsilon were left out": lambda a: [_normed(a[0], a[1], 0.0)],
        "the mean were subtracted first, as LayerNorm does": lambda a: centred(*a),
        "epsilon were added to the root, not to the mean square": lambda a: [
            a[0].double() / (a[0].double().pow(2).mean(-1, keepdim=True).sqrt() + a[2]) * a[1].double()
        ],
    }


def _rms_norm(dtype: Any) -> Iterator[Problem]:
    for rows, width in ((1, 64), (5, 128), (3, 100), (17, 257), (2, 4096), (300, 64)):
        x, weight = _drawn(rows, width, seed=rows, dtype=dtype), _drawn(width, seed=7, dtype=dtype)
        if rows > 1:
            x[-1] *= 300  # whose square is too large for float16
        x[0] *= 1e-3  # where epsilon counts
        for epsilon in (1e-5, 1e-2):
            yield Problem(
                f"rms_norm of [{rows}, {width}] with epsilon {epsilon:g}",
                (x, weight, epsilon),
                lambda a: [_normed(a[0], a[1], a[2])],
                mistakes=_norm_mistakes(),
            )
    yield Problem(
        "rms_norm of [3, 4, 64], the heads of three tokens",
        (_drawn(3, 4, 64, seed=4, dtype=dtype), _drawn(64, seed=7, dtype=dtype), 1e-5),
        lambda a: [_normed(a[0], a[1], a[2])],
        mistakes=_norm_mistakes(),
    )
    wide = _drawn(4, 96, seed=3, dtype=dtype)
    yield Problem(
        "rms_norm of every other column, [4, 48], a view",
        (wide[:, ::2], _drawn(48, seed=7, dtype=dtype), 1e-5),
        lambda a: [_normed(a[0], a[1], a[2])],
        mistakes=_norm_mistakes(),
    )


def _added_norm(dtype: Any) -> Iterator[Problem]:
    for rows, width in ((1, 64), (5, 128), (3, 100)):
        x, other = _drawn(rows, width, seed=1, dtype=dtype), _drawn(rows, width, seed=2, dtype=dtype)
        yield Problem(
            f"fused_add_rms_norm of [{rows}, {width}]",
            (x, other, _drawn(width, seed=7, dtype=dtype), 1e-5),
            lambda a: [_normed((a[0] + a[1]), a[2], a[3]), (a[0] + a[1]).double()],
            mistakes={
                "the residual were not added before the norm": lambda a: [
                    _normed(a[0], a[2], a[3]),
                    (a[0] + a[1]).double(),
                ],
                "the normed rows were returned as the sum too": lambda a: [
                    _normed(a[0] + a[1], a[2], a[3]),
                    _normed(a[0] + a[1], a[2], a[3]),
                ],
            },
        )


def _silu_and_mul(dtype: Any) -> Iterator[Problem]:
    import torch

    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = x.double().chunk(2, -1)
        return first, second

    def right(x: torch.Tensor) -> Sequence[torch.Tensor]:
        first, second = halves(x)
        return [torch.nn.functional.silu(first) * second]

    def swapped(x: torch.Tensor) -> Sequence[torch.Tensor]:
        first, second = halves(x)
        return [first * torch.nn.functional.silu(second)]

    def gelu(x: torch.Tensor) -> Sequence[torch.Tensor]:
        first, second = halves(x)
        return [torch.nn.functional.gelu(first) * second]

    for shape in ((1, 64), (5, 200), (3, 2050), (300, 64)):
        x = _drawn(*shape, seed=5, dtype=dtype)
        x[-1, : shape[1] // 2] *= 100  # whose exponential is too large for float32
        yield Problem(
            f"silu_and_mul of {list(shape)}",
            (x,),
            lambda a: right(*a),
            mistakes={
                "the halves were swapped": lambda a: swapped(*a),
                "gelu were taken for silu": lambda a: gelu(*a),
            },
        )


def _rotary(dtype: Any) -> Iterator[Problem]:
    import torch

    def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        half = cos.shape[-1]
        c, s, wide = cos.double().unsqueeze(1), sin.double().unsqueeze(1), x.double()
        first, second, rest = wide[..., :half], wide[..., half : 2 * half], wide[..., 2 * half :]
        return torch.cat((first * c - second * s, second * c + first * s, rest), dim=-1)

    def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Sequence[torch.Tensor]:
        result, half = x.double().clone(), cos.shape[-1]
        c, s = cos.double().unsqueeze(1), sin.double().unsqueeze(1)
        first, second = x.double()[..., : 2 * half : 2], x.double()[..., 1 : 2 * half : 2]
        result[..., : 2 * half : 2], result[..., 1 : 2 * half : 2] = (
            first * c - second * s,
            second * c + first * s,
        )
        return [result]

    for tokens, heads, size, half in ((1, 2, 32, 16), (5, 3, 64, 32), (4, 2, 80, 20)):
        angles = _drawn(tokens, half, seed=9, dtype=torch.float32) * 3
        yield Problem(
            f"rotary_embedding of [{tokens}, {heads}, {size}] by {half} angles",
            (
                _drawn(tokens, heads, size, seed=8, dtype=dtype),
                angles.cos().to(dtype),
                angles.sin().to(dtype),
            ),
            lambda a: [rotated(a[0], a[1], a[2])],
            mistakes={
                "neighbours were rotated, not elements half a head apart": lambda a: interleaved(*a),
                "it were rotated the other way": lambda a: [rotated(a[0], a[1], -a[2])],
                "every token had the angles of the first": lambda a: [
                    rotated(a[0], a[1][:1].expand_as(a[1]), a[2][:1].expand_as(a[2]))
                ],
            },
        )


def _slot_mapping(dtype: Any) -> Iterator[Problem]:
    import torch

    def right(starts: Any, positions: Any, table: Any, size: int, out: Any) -> Sequence[torch.Tensor]:
        result = torch.full(out.shape, -1, dtype=torch.float64)
        for request in range(len(starts) - 1):
            for token in range(int(starts[request]), int(starts[request + 1])):
                position = int(positions[token])
                result[token] = int(table[request, position // size]) * size + position % size
        return [result]

    whole = torch.arange(100, 400).reshape(3, 100)
    yield Problem(
        "slot_mapping of requests whose rows of blocks are a part of longer ones",
        (
            torch.tensor([0, 2, 5, 6], dtype=torch.int32),
            torch.tensor([0, 1, 15, 16, 17, 40]),
            whole.int()[:, :4],
            16,
            torch.full((6,), 77, dtype=torch.int64),
        ),
        lambda a: right(*a),
        changes=(4,),
    )
    for size in (16, 8, 3):
        starts, positions = [0, 3, 4, 9], [0, 1, 2, 21, 14, 15, 16, 17, 18]
        table = torch.tensor([[9 + i for i in range(9)], [5, 3, 8, 1, 6, 4, 2, 7, 0], list(range(20, 29))])
        yield Problem(
            f"slot_mapping of three requests in blocks of {size} tokens, with four rows of padding",
            (
                torch.tensor(starts, dtype=torch.int32),
                torch.tensor([*positions, 0, 0, 0, 0]),
                table.int(),
                size,
                torch.full((13,), 77, dtype=torch.int64),
            ),
            lambda a: right(*a),
            changes=(4,),
            mistakes={
                "rows of padding were left as they were": lambda a: [
                    torch.where(
                        right(a[0], a[1], a[2], a[3], a[4])[0] < 0,
                        a[4].double(),
                        right(a[0], a[1], a[2], a[3], a[4])[0],
                    )
                ],
            },
        )


def _write_cache(dtype: Any) -> Iterator[Problem]:
    import torch

    def right(key: Any, value: Any, cache: Any, slots: Any) -> Sequence[torch.Tensor]:
        result = cache.double().clone()
        for row, slot in enumerate(slots.tolist()):
            if slot >= 0:
                block, offset = divmod(slot, cache.shape[2])
                result[0, block, offset], result[1, block, offset] = key[row].double(), value[row].double()
        return [result]

    for size in (16, 5):
        slots = torch.tensor([3 * size + 1, 0, -1, 2 * size - 1, size, -1])
        yield Problem(
            f"write_cache of six rows, two of them padding, in blocks of {size} tokens",
            (
                _drawn(6, 2, 32, seed=1, dtype=dtype),
                _drawn(6, 2, 32, seed=2, dtype=dtype),
                torch.full((2, 4, size, 2, 32), 0.5, dtype=dtype),
                slots,
            ),
            lambda a: right(*a),
            changes=(2,),
        )
    fused = _drawn(70, 3 * 2 * 32, seed=3, dtype=dtype).view(70, 6, 32)
    yield Problem(
        "write_cache of 70 rows, views of one fused tensor, in blocks of 16 tokens",
        (
            fused[:, 2:4],
            fused[:, 4:],
            torch.full((2, 9, 16, 2, 32), 0.5, dtype=dtype),
            (torch.arange(70) * 37) % 144,
        ),
        lambda a: right(*a),
        changes=(2,),
    )


PROBLEMS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Any], Iterator[Problem]]]]] = {
    "rms_norm": (("x", "weight", "epsilon"), _rms_norm),
    "fused_add_rms_norm": (("x", "residual", "weight", "epsilon"), _added_norm),
    "silu_and_mul": (("x",), _silu_and_mul),
    "rotary_embedding": (("x", "cos", "sin"), _rotary),
    "slot_mapping": (("query_starts", "positions", "block_table", "block_size", "out"), _slot_mapping),
    "write_cache": (("key", "value", "cache", "slot_mapping"), _write_cache),
}
"""By kernel: the parameters of the engine's own, and problems in a dtype."""
