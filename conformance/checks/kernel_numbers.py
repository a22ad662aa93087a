"""Kernels that the platform registers compute what the engine's own do: IR ops, and overrides of core kernels."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.context import CheckContext, describe, is_a, locate, short
from conformance.model import Finding, Level, Unsupported, Violation
from conformance.numeric.attention_run import device_of
from conformance.places import quoted
from conformance.registry import check
from platform_abc.errors import MissingDependency

if TYPE_CHECKING:
    import torch

_IR: Final = "import_ir_kernels"
_OVERRIDES: Final = "register_triton_kernel_overrides"
_IR_OPS: Final = "reference_engine.ir_ops"
_CORES: Final = "platforms.components.core_kernels"
_NEEDS: Final = (
    "members.kinds",
    "members.engine-calls",
    "identity.torch-device",
    "kernels.imports",
    "device.answers",
)
_WITHIN: Final = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}

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
    for rows, width in ((1, 64), (5, 128), (3, 100), (17, 257), (2, 4096)):
        x, weight = _drawn(rows, width, seed=rows, dtype=dtype), _drawn(width, seed=7, dtype=dtype)
        x[0] *= 1e-3  # where epsilon counts
        for epsilon in (1e-5, 1e-2):
            yield Problem(
                f"rms_norm of [{rows}, {width}] with epsilon {epsilon:g}",
                (x, weight, epsilon),
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

    for shape in ((1, 64), (5, 200), (3, 2050)):
        yield Problem(
            f"silu_and_mul of {list(shape)}",
            (_drawn(*shape, seed=5, dtype=dtype),),
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


_PROBLEMS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Any], Iterator[Problem]]]]] = {
    "rms_norm": (("x", "weight", "epsilon"), _rms_norm),
    "fused_add_rms_norm": (("x", "residual", "weight", "epsilon"), _added_norm),
    "silu_and_mul": (("x",), _silu_and_mul),
    "rotary_embedding": (("x", "cos", "sin"), _rotary),
    "slot_mapping": (("query_starts", "positions", "block_table", "block_size", "out"), _slot_mapping),
    "write_cache": (("key", "value", "cache", "slot_mapping"), _write_cache),
}
"""By kernel: the parameters of the engine's own, and problems in a dtype."""


def _known(name: str, own: Callable[..., Any]) -> Callable[[Any], Iterator[Problem]] | None:
    """The problems of a kernel; None where it is another than the one that is meant here."""
    parameters, problems = _PROBLEMS.get(name, ((), None))
    try:
        return problems if tuple(inspect.signature(own).parameters) == parameters else None
    except (TypeError, ValueError):
        return None


def _dtypes(ctx: CheckContext) -> list[Any]:
    import torch

    usual = (torch.float32, torch.bfloat16, torch.float16)
    return [one for one in ctx.platform.supported_dtypes if one in usual]


@attrs.frozen
class Kernel:
    """A kernel of the platform.

    Args:
        hook: that registered it.
        name: with what it stands for.
        function: itself.
        supports: says whether it takes some arguments; None for any.
    """

    hook: str
    name: str
    function: Callable[..., Any]
    supports: Callable[..., Any] | None = None

    def fail(self, says: str, did: str, hint: str, place: str = "") -> Violation:
        """A violation that names it."""
        function: Any = inspect.unwrap(self.function)
        return Violation(
            Finding(
                contract_says=says,
                platform_did=did,
                member=f"{self.hook} → {self.name}",
                location=place or locate(function) or self.name,
                hint=hint,
            )
        )


def _judge(ctx: CheckContext, kernel: Kernel, problem: Problem, dtype: Any, says: str, hint: str) -> bool:
    """Run one problem, and say whether the kernel takes it.

    Raises:
        Violation: it raises, or computes something else.
    """
    import torch

    device = device_of(ctx)
    given = tuple(one.to(device) if isinstance(one, torch.Tensor) else one for one in problem.arguments)
    given = tuple(
        one.clone(memory_format=torch.preserve_format) if index in problem.changes else one
        for index, one in enumerate(given)
    )
    before = [one.clone() if isinstance(one, torch.Tensor) else one for one in given]
    right = problem.right(problem.arguments)  # before a kernel can change what it is given
    told = f"{problem.words} in {dtype}"
    try:
        with ctx.adapter.active(ctx.platform), torch.inference_mode():
            if kernel.supports is not None and not kernel.supports(*given):
                return False
            answer: Any = kernel.function(*given)
    except MissingDependency:
        return False
    except (Exception, SystemExit) as error:
        place = ctx.blame(error)
        raise kernel.fail(
            says,
            f"{told} raised {describe(error)}{quoted(place)}",
            f"Correct that line, or let `supports` of the implementation say no. {hint}",
            place,
        ) from error
    whole: Sequence[Any] = answer if is_a(answer, tuple) else (answer,)
    got: Sequence[Any] = [given[index] for index in problem.changes] or whole
    bad = _off(got, right, problem, dtype)
    if bad:
        raise kernel.fail(says, f"{told}: {bad}", hint)
    for index, (now, was) in enumerate(zip(given, before, strict=True)):
        if index not in problem.changes and isinstance(now, torch.Tensor) and not torch.equal(now, was):
            raise kernel.fail(
                says,
                f"{told} changed its argument {index}",
                "Write the result into a tensor of its own: the engine goes on with what it passed.",
            )
    return True


def _off(got: Sequence[Any], right: Sequence[torch.Tensor], problem: Problem, dtype: Any) -> str:
    import torch

    within = _WITHIN[str(dtype).removeprefix("torch.")]
    for number, (one, other) in enumerate(zip(got, right, strict=False)):
        if not isinstance(one, torch.Tensor):
            return f"it gave {short(one)}, expected a tensor"
        if one.shape != other.shape:
            return f"it gave {list(one.shape)}, expected {list(other.shape)}"
        if not problem.changes and one.dtype is not dtype:
            return f"it gave {one.dtype}, expected {dtype}"
        bound = within * (1 + other.abs())
        gap = (one.double().cpu() - other).abs().nan_to_num(nan=float("inf"))
        if bool((gap <= bound).all()):
            continue
        at = int((gap / bound).flatten().argmax())
        looks = next(
            (
                words
                for words, mistake in problem.mistakes.items()
                if _alike(one, mistake(problem.arguments)[number], 2 * bound)
            ),
            "",
        )
        return (
            f"element {at} is {float(one.flatten()[at]):.5g}, expected {float(other.flatten()[at]):.5g}; "
            f"{int((gap > bound).sum())} of {gap.numel()} are off{f'; it looks as if {looks}' if looks else ''}"
        )
    return f"it gave {len(got)} results, expected {len(right)}" if len(got) != len(right) else ""


def _alike(one: torch.Tensor, other: torch.Tensor, bound: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(((one.double().cpu() - other).abs() <= bound).all())


def _run(
    ctx: CheckContext,
    kernels: Sequence[tuple[Kernel, Callable[[Any], Iterator[Problem]]]],
    says: str,
    hint: str,
) -> None:
    taken = 0
    for kernel, problems in kernels:
        for dtype in _dtypes(ctx):
            taken += sum(_judge(ctx, kernel, one, dtype, says, hint) for one in problems(dtype))
    ctx.details["calls"] = taken
    if not taken:
        raise Unsupported("none of the platform's kernels runs here")


@check(
    "kernels.ir-ops",
    group="kernel_hooks",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    asks=(_IR,),
    why="Which implementation of an op runs is a matter of a priority list; the answer may not depend on it.",
    hint="Compute in float32 what the engine's native implementation computes, and round at the end.",
)
def ir_ops(ctx: CheckContext) -> None:
    """Implementations of IR ops that the platform registers give what the native ones give."""
    ctx.need_device()
    if importlib.util.find_spec(_IR_OPS) is None:
        raise Unsupported("the engine has no IR ops")
    importlib.import_module(_IR_OPS)
    from platform_abc.components.kernels import IR_OPS, NATIVE

    says = f"What `{_IR}` registers for an IR op computes what the engine's native implementation computes."
    hint = "Compute in float32, for every shape and stride; or give `supports`, which says what is taken."
    ctx.ask(_IR, contract_says=says, hint=hint)
    chosen: list[tuple[Kernel, Callable[[Any], Iterator[Problem]]]] = []
    for name, op in IR_OPS.ops.items():
        problems = _known(name, op.native)
        for provider, impl in op.impls.items():
            if provider != NATIVE and problems is not None:
                chosen.append(
                    (Kernel(_IR, f"{name} by {provider!r}", impl.function, impl.supports), problems)
                )
    if not chosen:
        raise Unsupported(f"`{_IR}` registers no implementation of an op that is known here")
    _run(ctx, chosen, says, hint)


@check(
    "kernels.overrides",
    group="kernel_hooks",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    asks=(_OVERRIDES,),
    why="An override replaces the engine's own kernel in every step.",
    hint="Take the arguments of the core kernel, and compute what it computes.",
)
def overrides(ctx: CheckContext) -> None:
    """Overrides of core kernels that the platform registers give what these kernels give."""
    ctx.need_device()
    if importlib.util.find_spec(_CORES) is not None:
        importlib.import_module(_CORES)
    from platform_abc.components.kernels import KERNELS

    says = f"What `{_OVERRIDES}` registers computes what the core kernel of that name computes."
    hint = "Look at the core kernel's docstring for its arguments, what it fills, and what padding is."
    ctx.ask(_OVERRIDES, contract_says=says, hint=hint)
    chosen: list[tuple[Kernel, Callable[[Any], Iterator[Problem]]]] = []
    for name in KERNELS.overridden():
        function = KERNELS.get(name)
        problems = _known(name, KERNELS.core_of(name))
        if problems is not None:
            chosen.append((Kernel(_OVERRIDES, name, function), problems))
    if not chosen:
        raise Unsupported(f"`{_OVERRIDES}` overrides no kernel that is known here")
    _run(ctx, chosen, says, hint)
