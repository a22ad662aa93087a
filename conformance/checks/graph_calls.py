"""The picked wrapper of static graphs with callables of other kinds: other arguments and answers, several, one that raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.checks.graphs import PICKER, STARTED, WIDTH, Deliberate, guarded, wrapper_of
from conformance.context import CheckContext, is_a, kind_of, short
from conformance.model import Level, Violation
from conformance.numeric.attention_run import device_of, part_fails
from conformance.numeric.values import numbers
from conformance.registry import check

if TYPE_CHECKING:
    import torch

_NEEDS: Final = (*STARTED, "graphs.replay", "graphs.shapes")
_NESTED: Final = "Tensors within mappings, sequences and attrs objects are inputs, and answers, like others."
_BAKED: Final = (
    "A graph is replayed for the numbers, the dtypes and the shape of the step that it was captured for."
)
_APART: Final = "Each wrapper replays what was captured of its own callable."
_RAISED: Final = "What the callable raises reaches the caller, and the next step runs as if nothing had been."


def _fails(ctx: CheckContext, cls: type, says: str, did: str, hint: str) -> Violation:
    return part_fails(ctx, PICKER, cls, "__call__", says=says, did=did, hint=hint)


def _full() -> Any:
    from platform_abc.config import CUDAGraphMode

    return CUDAGraphMode.FULL


def _drawn(ctx: CheckContext, seed: int, rows: int = 4) -> torch.Tensor:
    import torch

    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed)).to(device_of(ctx))


def _gap(got: object, right: torch.Tensor) -> str:
    """How a part of an answer is off, in words; empty if it is not."""
    import torch

    if not isinstance(got, torch.Tensor) or got.shape != right.shape or got.dtype is not right.dtype:
        shown = f"{list(got.shape)} in {got.dtype}" if isinstance(got, torch.Tensor) else kind_of(got)
        return f"was {shown}, expected {list(right.shape)} in {right.dtype}"
    if torch.allclose(got.double(), right.double(), rtol=1e-2, atol=1e-2):
        return ""
    return f"was {_first(got)}…, expected {_first(right)}…"


def _first(tensor: torch.Tensor) -> str:
    return short([round(one, 4) for one in numbers(tensor)[:3]])


@attrs.frozen(eq=False)
class Parts:
    """What an engine hands over together."""

    scale: torch.Tensor
    shifts: list[torch.Tensor]


_PARTS: Final = ("'total'", "first of 'pair'", "second of 'pair'")
"""What an answer of `_nested` consists of."""


def _flat(answer: Any) -> tuple[Any, Any, Any] | None:
    """The parts of such an answer; None where it is another."""
    if not is_a(answer, dict) or set(answer) != {"total", "pair"}:
        return None
    pair: Any = answer["pair"]
    return (answer["total"], pair[0], pair[1]) if is_a(pair, tuple) and len(pair) == 2 else None


def _copies(answer: object) -> tuple[object, ...]:
    """The parts of such an answer as they are now; the answer's own memory may change later."""
    import torch

    return tuple(
        one.detach().clone() if isinstance(one, torch.Tensor) else one for one in _flat(answer) or ()
    )


def _nested(x: torch.Tensor, parts: Parts, more: dict[str, torch.Tensor]) -> dict[str, Any]:
    total = x * parts.scale + parts.shifts[0] - parts.shifts[1] + more["bias"]
    return {"total": total, "pair": (total.sum(-1), x - 1)}


_NESTED_HINT: Final = (
    "Walk through lists, tuples, mappings and attrs objects: copy each tensor in to where the graph reads it, and each "
    "tensor of the answer out; or run the callable where an argument cannot be followed."
)


@check(
    "graphs.structures",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*_NEEDS, "graphs.answers-kept"),
    why="Metadata comes as objects that hold tensors, and models answer with several tensors.",
    hint=_NESTED_HINT,
)
def structures(ctx: CheckContext) -> None:
    """Tensors within arguments are those of the call, and tensors within answers stay as they are."""
    cls, wrapper = wrapper_of(ctx, _nested)
    told: list[tuple[int, Any, tuple[object, ...], Any]] = []
    for number in range(1, 5):
        drawn = [_drawn(ctx, 100 * number + one) for one in range(5)]
        held, more = Parts(drawn[1], drawn[2:4]), {"bias": drawn[4]}

        def call(x: torch.Tensor = drawn[0], held: Parts = held, more: dict[str, torch.Tensor] = more) -> Any:
            return wrapper(x, held, more=more)

        got = guarded(ctx, cls, _full(), 4, call)
        told.append((number, got, _copies(got), _nested(drawn[0], held, more)))
    for number, got, then, right in told:
        parts = _flat(got)
        if parts is None:
            raise _fails(
                ctx,
                cls,
                _NESTED,
                f"the callable gives a dict of a tensor and a tuple, and it gave {kind_of(got)}",
                "Return the answer in the structure in which the callable gives it.",
            )
        for name, one, first, other in zip(_PARTS, parts, then, _flat(right) or (), strict=True):
            gap = _gap(one, other)
            if gap:
                when = (
                    "right after the call already"
                    if _gap(first, other)
                    else "and was right until a later call"
                )
                raise _fails(
                    ctx,
                    cls,
                    _NESTED,
                    f"of four calls with other tensors in a list, a dict and an attrs object, in call {number} the answer's "
                    f"{name} {gap}, {when}",
                    _NESTED_HINT,
                )


_BAKED_HINT: Final = "Put all that is no tensor into the key by which a graph is found, with each tensor's dtype and the step's `batch`."


@check(
    "graphs.keys",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    why="A number is baked into a graph, and a step with adapters runs other kernels than one without.",
    hint=_BAKED_HINT,
)
def keys(ctx: CheckContext) -> None:
    """A graph is not replayed for other numbers, another dtype, or a step of another kind of batch."""
    import torch

    from platform_abc.components.graph import current_graph_step

    def step(x: torch.Tensor, factor: float = 2.0, name: str = "") -> torch.Tensor:
        now = current_graph_step()
        adapters = now is not None and now.batch is not None and now.batch.has_lora
        return x * factor + (10 if adapters else 0) + len(name)

    cls, wrapper = wrapper_of(ctx, step)
    usual, half = torch.float32, torch.bfloat16
    calls = (
        (usual, 2.0, "", False, "factor 2.0"),
        (usual, 3.0, "", False, "factor 3.0, after 2.0"),
        (usual, 2.0, "ab", False, "the text 'ab', after none"),
        (half, 2.0, "", False, "bfloat16, after float32"),
        (usual, 2.0, "", True, "adapters in the step's batch, after none"),
        (usual, 2.0, "", False, "no adapters again"),
        (half, 3.0, "", True, "bfloat16, factor 3.0 and adapters"),
    )
    for number, (dtype, factor, name, adapters, words) in enumerate(calls, start=1):
        if dtype not in (*ctx.platform.supported_dtypes, usual):
            continue
        x = _drawn(ctx, number).to(dtype)

        more: dict[str, Any] = {} if factor == 2.0 else {"factor": factor}
        more.update({"name": name} if name else {})

        def call(x: torch.Tensor = x, more: dict[str, Any] = more) -> Any:
            return wrapper(x, **more)

        gap = _gap(
            guarded(ctx, cls, _full(), 4, call, has_lora=adapters),
            x * factor + (10 if adapters else 0) + len(name),
        )
        if gap:
            raise _fails(ctx, cls, _BAKED, f"in call {number}, with {words}, the answer {gap}", _BAKED_HINT)


_APART_HINT: Final = "Keep graphs, inputs and answers on the instance, not on the class or in the module."


@check(
    "graphs.several",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*_NEEDS, "graphs.answers-kept"),
    why="Piecewise graphs wrap each part of a model, and parts take inputs of the same shapes.",
    hint=_APART_HINT,
)
def several(ctx: CheckContext) -> None:
    """Wrappers of several callables, called in turn with inputs of one shape, each give what their own callable gives."""

    def of(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: (x * factor).tanh() - factor

    callables = [of(factor) for factor in (0.5, 1.0, 2.0)]
    made = [wrapper_of(ctx, one) for one in callables]
    cls = made[0][0]
    told: list[tuple[str, Any, torch.Tensor]] = []
    for turn in range(1, 4):
        for number, ((_, wrapper), one) in enumerate(zip(made, callables, strict=True), start=1):
            x = _drawn(ctx, 10 * turn + number)

            def call(wrapper: Any = wrapper, x: torch.Tensor = x) -> Any:
                return wrapper(x)

            told.append((f"wrapper {number} in turn {turn}", guarded(ctx, cls, _full(), 4, call), one(x)))
    for words, got, right in told:
        gap = _gap(got, right)
        if gap:
            raise _fails(
                ctx,
                cls,
                _APART,
                f"of three wrappers around three callables, the answer of {words} {gap}, looked at after the last call",
                _APART_HINT,
            )


_RAISED_HINT: Final = (
    "Let what the callable raises pass, and keep a graph only once its capture has ended well."
)


@check(
    "graphs.errors",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    why="An error that is swallowed becomes a wrong answer, or another error far away.",
    hint=_RAISED_HINT,
)
def errors(ctx: CheckContext) -> None:
    """What the callable raises passes, in every mode, and the steps after it are right."""
    from platform_abc.config import CUDAGraphMode

    for mode in (CUDAGraphMode.FULL, CUDAGraphMode.NONE, None):
        where = "outside of any step" if mode is None else f"in a step of the mode {mode.name}"
        broken = [True]

        def step(x: torch.Tensor, broken: list[bool] = broken) -> torch.Tensor:
            if broken[0]:
                raise Deliberate("deliberately raised by the kit")
            return x + 1

        cls, wrapper = wrapper_of(ctx, step)
        _judge_raised(ctx, cls, where, mode, wrapper)
        broken[0] = False
        for number in (1, 2):
            x = _drawn(ctx, number)

            def call(wrapper: Any = wrapper, x: torch.Tensor = x) -> Any:
                return wrapper(x)

            gap = _gap(guarded(ctx, cls, mode, 4, call), x + 1)
            if gap:
                did = (
                    f"{where}, in call {number} after one in which the callable had raised, the answer {gap}"
                )
                raise _fails(ctx, cls, _RAISED, did, _RAISED_HINT)


def _judge_raised(ctx: CheckContext, cls: type, where: str, mode: Any, wrapper: Any) -> None:
    """Call a wrapper whose callable raises.

    Raises:
        Violation: nothing is raised, or something else that does not say so.
    """
    x = _drawn(ctx, 0)
    try:
        got = guarded(ctx, cls, mode, 4, lambda: wrapper(x))
    except Deliberate:
        return
    except Violation as told:
        error = told.__cause__
        while error is not None:
            if isinstance(error, Deliberate):
                return  # within another, which says where it came from
            error = error.__cause__ or error.__context__
        raise
    raise _fails(
        ctx, cls, _RAISED, f"{where} the callable raised, and the wrapper gave {kind_of(got)}", _RAISED_HINT
    )
