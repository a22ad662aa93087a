"""The picked wrapper of static graphs: what it replays is what the callable computes on the inputs of the call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.checks._resolve import resolve_class
from conformance.checks.pickers import asked, says_of
from conformance.context import CheckContext, describe, kind_of, short
from conformance.model import Level, Unsupported, Violation
from conformance.numeric.attention_run import device_of, part_fails
from conformance.numeric.values import numbers
from conformance.places import quoted
from conformance.registry import check

if TYPE_CHECKING:
    import torch

PICKER: Final = "get_static_graph_wrapper_cls"
WIDTH: Final = 8
PICKED: Final = (
    "members.kinds",
    "members.engine-calls",
    "identity.enum",
    "identity.device-type",
    "identity.torch-device",
    "capabilities.answers",
    "capabilities.graph-wrapper",
    "pickers.static-graph.importable",
    "pickers.static-graph.surface",
    "pickers.signatures",
    "pickers.complete",
)
STARTED: Final = (*PICKED, "graphs.start")


class Deliberate(RuntimeError):
    """What a callable raises to see what becomes of it."""


@attrs.define
class Step:
    """A callable as an engine wraps it, which counts how often Python runs it."""

    weight: torch.Tensor
    runs: int = 0

    def __call__(self, x: torch.Tensor, *, shift: torch.Tensor) -> torch.Tensor:
        """Compute something of both inputs, `[n, width]` and `[n]`."""
        self.runs += 1
        return self.eager(x, shift)

    def eager(self, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """The same, uncounted."""
        return (x @ self.weight).tanh() + shift.unsqueeze(-1)


@attrs.define
class Driver:
    """A wrapper around a step."""

    ctx: CheckContext
    cls: type
    wrapper: Any
    step: Step
    device: torch.device

    def inputs(self, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Fresh inputs of so many rows, in memory of their own."""
        import torch

        drawn = torch.Generator().manual_seed(seed)
        x, shift = torch.randn(rows, WIDTH, generator=drawn), torch.randn(rows, generator=drawn)
        return x.to(self.device), shift.to(self.device)

    def call(self, mode: Any, rows: int, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """Call the wrapper in a step of a mode; outside of any step where the mode is None.

        Raises:
            Violation: it raised, or gave something else than a tensor.
        """
        import torch

        result = guarded(self.ctx, self.cls, mode, rows, lambda: self.wrapper(x, shift=shift))
        if not isinstance(result, torch.Tensor):
            raise self.fail(
                "A wrapper returns what the callable returns.",
                f"the callable returns a tensor, and it gave {kind_of(result)}",
                "Return the answer of the callable, or of its graph.",
            )
        return result

    def wrong(self, got: torch.Tensor, x: torch.Tensor, shift: torch.Tensor) -> str:
        """How a result differs from the callable's, in words; empty if it does not."""
        import torch

        right = self.step.eager(x, shift)
        if got.shape != right.shape:
            return f"it gave {list(got.shape)}, expected {list(right.shape)}"
        # A graph may pick other kernels, which round otherwise.
        if torch.allclose(got, right, rtol=1e-3, atol=1e-3):
            return ""
        return f"it gave {_shown(got)}…, and the callable gives {_shown(right)}…"

    def fail(self, says: str, did: str, hint: str) -> Violation:
        """A violation that names `__call__` of the wrapper."""
        return part_fails(self.ctx, PICKER, self.cls, "__call__", says=says, did=did, hint=hint)


def _shown(tensor: torch.Tensor) -> str:
    return short([round(float(one), 4) for one in tensor.flatten()[:3]])


def guarded(ctx: CheckContext, cls: type, mode: Any, rows: int, call: Callable[[], Any], **batch: Any) -> Any:
    """Call a wrapper in a step.

    Args:
        ctx: of the check.
        cls: of the wrapper.
        mode: of the step; None for none.
        rows: tokens of the step.
        call: calls the wrapper.
        **batch: more of the step's shape.

    Raises:
        Deliberate: the callable raised it.
        Violation: it raised something else.
    """
    import torch

    from platform_abc.components.graph import BatchDescriptor, graph_step

    try:
        with ctx.adapter.active(ctx.platform), torch.inference_mode():
            if mode is None:
                return call()
            with graph_step(mode, BatchDescriptor(num_tokens=rows, **batch)):
                return call()
    except Deliberate:
        raise
    except (Exception, SystemExit) as error:
        place = ctx.blame(error)
        raise part_fails(
            ctx,
            PICKER,
            cls,
            "__call__",
            says="A wrapper runs in any step: it replays, captures, or calls the callable.",
            did=f"in a step of {rows} rows and mode {getattr(mode, 'name', 'none at all')} it raised "
            f"{describe(error)}{quoted(place)}",
            hint="Correct that line; where something cannot be captured, run the callable.",
            place=place,
        ) from error


def _options(ctx: CheckContext) -> dict[str, Any]:
    """What an engine gives the wrapper beside the callable."""
    with ctx.adapter.active(ctx.platform):
        try:
            return {"graph_pool": ctx.platform.get_global_graph_pool()}
        except NotImplementedError:
            return {}


def wrapper_of(
    ctx: CheckContext, runnable: Callable[..., Any], mode: str = "FULL", **options: Any
) -> tuple[type, Any]:
    """Make a wrapper as an engine does.

    Raises:
        Unsupported: the platform has none.
        Violation: making it raised.
    """
    from platform_abc.config import CUDAGraphMode

    ctx.need_device()
    if not ctx.platform.support_static_graph_mode():
        raise Unsupported("support_static_graph_mode says no")
    name = asked(ctx, PICKER)
    if not name:
        raise Unsupported(f"{PICKER} names no class")
    cls = resolve_class(ctx, PICKER, name, says_of(PICKER))
    try:
        options = {**_options(ctx), **options}
        with ctx.adapter.active(ctx.platform):
            made: Any = cls(
                runnable, vllm_config=ctx.fitted.config("plain"), runtime_mode=CUDAGraphMode[mode], **options
            )
    except (Exception, SystemExit) as error:
        place = ctx.blame(error)
        raise part_fails(
            ctx,
            PICKER,
            cls,
            "__init__",
            says="A wrapper is made with the callable, the config, the mode PIECEWISE or FULL, and options.",
            did=f"for the mode {mode} it raised {describe(error)}{quoted(place)}",
            hint="Take these arguments by name, call `super().__init__`, and ignore options that you do not know.",
            place=place,
        ) from error
    return cls, made


def _driver(ctx: CheckContext, mode: str = "FULL") -> Driver:
    import torch

    ctx.need_device()
    device = device_of(ctx)
    weight = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)).to(device)
    step = Step(weight)
    cls, wrapper = wrapper_of(ctx, step, mode)
    return Driver(ctx, cls, wrapper, step, device)


@check(
    "graphs.start",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=PICKED,
    why="The engine wraps its model in it when graphs are on, and runs every step through it.",
    hint="Take the callable, vllm_config, runtime_mode and options, and return what the callable returns.",
)
def start(ctx: CheckContext) -> None:
    """The wrapper is made for both modes, gives the callable back, and its first step gives what the callable gives."""
    from platform_abc.config import CUDAGraphMode

    for mode in ("PIECEWISE", "FULL"):
        driver = _driver(ctx, mode)
        if driver.wrapper.unwrap() is not driver.step:
            raise part_fails(
                ctx,
                PICKER,
                driver.cls,
                "unwrap",
                says="`unwrap` of a wrapper gives the callable that it was made with.",
                did=f"it gave {kind_of(driver.wrapper.unwrap())}",
                hint="Leave `unwrap` to the base class, and `self.runnable` as it is.",
            )
        given = driver.inputs(4, seed=1)
        did = driver.wrong(driver.call(CUDAGraphMode[mode], 4, *given), *given)
        if did:
            raise driver.fail(
                "The first step of a shape, in which a graph is captured, gives what the callable gives.",
                f"in the first step of 4 rows, in the mode {mode}, {did}",
                "Run the callable, or replay what was captured, before the answer is returned: capturing computes nothing.",
            )


def _run(driver: Driver, rows: Sequence[int], says: str, hint: str, told: str) -> None:
    from platform_abc.config import CUDAGraphMode

    for number, count in enumerate(rows, start=1):
        given = driver.inputs(count, seed=10 + number)
        did = driver.wrong(driver.call(CUDAGraphMode.FULL, count, *given), *given)
        if did:
            raise driver.fail(
                says, f"{told}, call {number}, of {count} rows: {did}{_stale(driver, did)}", hint
            )


def _stale(driver: Driver, did: str) -> str:
    """Say that the inputs of the first call were used, if that is so."""
    first = driver.step.eager(*driver.inputs(4, seed=11))
    return (
        "; it looks as if the inputs of the first call were used"
        if _shown(first) in did.partition(", and")[0]
        else ""
    )


@check(
    "graphs.replay",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=STARTED,
    why="A graph reads memory, not arguments: without a copy every step answers the first one's question.",
    hint="Copy the tensors of each call, also those by keyword and nested ones, to where the graph reads them.",
)
def replay(ctx: CheckContext) -> None:
    """Steps of one shape give what the callable gives on the inputs of each call."""
    _run(
        _driver(ctx),
        (4, 4, 4, 4),
        "A replay computes on the inputs of its call, whichever memory they are in.",
        "Copy every tensor of the call to the memory that the graph was captured with, then replay.",
        "with fresh inputs of one shape",
    )


@check(
    "graphs.shapes",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "graphs.replay"),
    why="Batches change their size from step to step, and each size has a graph of its own.",
    hint="Find a graph by the shape of its step, and by all else that is baked into it.",
)
def shapes(ctx: CheckContext) -> None:
    """Steps of several shapes, in any order, give what the callable gives."""
    _run(
        _driver(ctx),
        (4, 2, 1, 8, 2, 4, 8, 1),
        "Each shape of a step has its own graph; a step of a new shape is captured, not replayed.",
        "Put the shapes of the inputs and `current_graph_step().batch` into the key by which a graph is found.",
        "with several shapes in turn",
    )


@check(
    "graphs.answers-kept",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "graphs.replay", "graphs.shapes"),
    why="Logits of one step are still read, or sampled from, while the next one runs.",
    hint="Return a copy of what the graph wrote.",
)
def answers_kept(ctx: CheckContext) -> None:
    """An answer stays as it is when later steps run, and inputs are left as they were."""
    from platform_abc.config import CUDAGraphMode

    driver = _driver(ctx)
    answers: list[tuple[int, Any, Any]] = []
    for number, rows in enumerate((4, 4, 2, 4, 2), start=1):
        given = driver.inputs(rows, seed=20 + number)
        answers.append((rows, driver.call(CUDAGraphMode.FULL, rows, *given), given))
    for number, (rows, got, given) in enumerate(answers, start=1):
        did = driver.wrong(got, *given)
        if did:
            raise driver.fail(
                "What a wrapper returned belongs to the caller: later steps do not change it.",
                f"the answer of call {number}, of {rows} rows, was another after {len(answers) - number} more calls: {did}",
                "Copy the answer out of the graph's memory (`clone`), which the next replay writes again.",
            )


@check(
    "graphs.other-modes",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "graphs.replay"),
    why="Profiling, prefills and debugging run without graphs, also while a captured one is there.",
    hint="Compare `current_graph_step()` with `runtime_mode`, and call the callable where they differ.",
)
def other_modes(ctx: CheckContext) -> None:
    """In a step of another mode, or outside of any, the callable itself runs each time, and nothing is captured."""
    from platform_abc.config import CUDAGraphMode

    driver = _driver(ctx)
    says = "In a step whose mode is not the wrapper's own, and outside of any step, the callable runs."
    hint = "Return `self.runnable(*args, **kwargs)` unless `current_graph_step()` has the mode `self.runtime_mode`."
    given = driver.inputs(4, seed=31)
    driver.call(CUDAGraphMode.FULL, 4, *given)
    for mode in (CUDAGraphMode.NONE, CUDAGraphMode.PIECEWISE, None):
        where = "outside of any step" if mode is None else f"in a step of the mode {mode.name}"
        for number in (1, 2):
            given = driver.inputs(4, seed=32 + number)
            before = driver.step.runs
            got = driver.call(mode, 4, *given)
            did = driver.wrong(got, *given)
            ran = driver.step.runs - before
            if ran != 1 or did:
                raise driver.fail(
                    says,
                    f"a wrapper of the mode FULL, called {where}, ran the callable {ran} times{f', and {did}' if did else ''}",
                    hint,
                )


@check(
    "graphs.persistent",
    group="pickers",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*STARTED, "graphs.replay", "graphs.shapes"),
    why="The KV caches are as large as the device: they are neither copied nor may writes to them be lost.",
    hint="Capture what `persistent` names as it is, and find the graph by its address as well.",
)
def persistent(ctx: CheckContext) -> None:
    """What `persistent` names is read and written where it is, in every step."""
    import torch

    from platform_abc.config import CUDAGraphMode

    device = device_of(ctx)

    def step(x: torch.Tensor, slot: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, slot, x)
        return cache.sum(0)

    cls, wrapper = wrapper_of(ctx, step, persistent=("cache",))
    says = "A tensor that the option `persistent` names is not copied: a step reads it and writes to it where it is."
    hint = "Leave the tensors of parameters in `persistent` out of what is copied, and replay a graph for the same address."
    first, second = (torch.zeros(6, WIDTH, device=device) for _ in range(2))
    right = {id(first): first.clone(), id(second): second.clone()}
    for number, cache in enumerate((first, first, second, first, second), start=1):
        x = torch.full((2, WIDTH), float(number), device=device)
        slot = torch.tensor([number % 5, (number + 1) % 5], device=device)
        if number == 4:
            # As another part of the engine does, which copies a block.
            cache[5], right[id(cache)][5] = 7.0, 7.0
        got = guarded(ctx, cls, CUDAGraphMode.FULL, 2, functools.partial(wrapper, x, slot, cache))
        wanted = right[id(cache)].index_copy_(0, slot, x)
        for what, one, other in (("its answer", got, wanted.sum(0)), ("the cache", cache, wanted)):
            if not torch.allclose(one, other, rtol=1e-3, atol=1e-3):
                raise part_fails(
                    ctx,
                    PICKER,
                    cls,
                    "__call__",
                    says=says,
                    did=f"in call {number}, which writes {float(number)} to two rows of one of two caches, the first column "
                    f"of {what} was {short(numbers(one.reshape(-1, WIDTH)[:, 0]))}, expected "
                    f"{short(numbers(other.reshape(-1, WIDTH)[:, 0]))}",
                    hint=hint,
                )
