"""Kernels that the platform registers compute what the engine's own do: IR ops, and overrides of core kernels."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.context import CheckContext, describe, is_a, locate, short
from conformance.model import Finding, Level, Unsupported, Violation
from conformance.numeric.attention_run import device_of
from conformance.numeric.kernel_problems import PROBLEMS, Problem
from conformance.places import quoted
from conformance.registry import check
from platform_abc.errors import MissingDependency

if TYPE_CHECKING:
    import torch

_IR: Final = "import_ir_kernels"
_OVERRIDES: Final = "register_triton_kernel_overrides"
_IR_OPS: Final = "reference_model.ir_ops"
_CORES: Final = "platforms.components.core_kernels"
_NEEDS: Final = (
    "members.kinds",
    "members.engine-calls",
    "identity.torch-device",
    "kernels.imports",
    "device.answers",
)
_WITHIN: Final = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}


def _known(name: str, own: Callable[..., Any]) -> Callable[[Any], Iterator[Problem]] | None:
    """The problems of a kernel; None where it is another than the one that is meant here."""
    parameters, problems = PROBLEMS.get(name, ((), None))
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
                contract_says=says.format(kernel=self.name),
                platform_did=did,
                member=f"{self.hook} → {self.name}",
                location=place or locate(function) or self.name,
                hint=hint,
            )
        )


def _placed(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on a device, with the strides that it has here."""
    import torch

    if device.type == "cpu":
        return tensor
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return made.copy_(tensor)


def _judge(ctx: CheckContext, kernel: Kernel, problem: Problem, dtype: Any, says: str, hint: str) -> bool:
    """Run one problem, and say whether the kernel takes it.

    Raises:
        Violation: it raises, or computes something else.
    """
    import torch

    device = device_of(ctx)
    given = tuple(_placed(one, device) if isinstance(one, torch.Tensor) else one for one in problem.arguments)
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
            return f"it gave another shape, {list(one.shape)}, expected {list(other.shape)}"
        if not problem.changes and one.dtype is not dtype:
            return f"it gave another dtype, {one.dtype}, expected {dtype}"
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
        what = (
            f"it left other values in {_filled(problem, number)}"
            if problem.changes
            else "it gave other values"
        )
        return (
            f"{what}: element {at} is {float(one.flatten()[at]):.5g}, expected {float(other.flatten()[at]):.5g}; "
            f"{int((gap > bound).sum())} of {gap.numel()} are off{f'; it looks as if {looks}' if looks else ''}"
        )
    return f"it gave {len(got)} results, expected {len(right)}" if len(got) != len(right) else ""


def _filled(problem: Problem, number: int) -> str:
    """Which argument a kernel has to fill, by the name that the core kernel has for it."""
    names, _ = PROBLEMS[problem.words.partition(" ")[0]]
    return f"its argument `{names[problem.changes[number]]}`"


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

    says = f"What `{_IR}` registers for an IR op, {{kernel}}, computes what the engine's native implementation does."
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

    says = f"What `{_OVERRIDES}` registers for the kernel {{kernel}} computes what the core kernel {{kernel}} computes."
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
