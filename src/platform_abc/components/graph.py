"""The wrapper that captures a callable as a static graph, as `get_static_graph_wrapper_cls` names it.

A captured graph replays what the device did, on the memory that it had. So whatever changes from step to step
comes as arguments of the wrapped callable, which the wrapper copies to where the graph reads them.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from platform_abc.config import CUDAGraphMode, EngineConfig


@attrs.frozen
class BatchDescriptor:
    """The shape of a step, by which its graph is found again.

    Args:
        num_tokens: tokens of the step, padding included.
        num_reqs: requests, padding included; None where the graph does not depend on it.
        uniform: every request has the same number of tokens, as in a step that only decodes.
        has_lora: adapters are applied.
    """

    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False
    has_lora: bool = False


@attrs.frozen
class GraphStep:
    """How the step that runs is to run.

    Args:
        mode: `NONE`, or the mode of the wrappers that capture or replay in it.
        batch: its shape; None where the mode is `NONE`.
    """

    mode: CUDAGraphMode
    batch: BatchDescriptor | None = None


_step: ContextVar[GraphStep | None] = ContextVar("platform_abc_graph_step", default=None)


def current_graph_step() -> GraphStep | None:
    """Return how the step that runs is to run; None outside of `graph_step`, where nothing is captured."""
    return _step.get()


@contextlib.contextmanager
def graph_step(mode: CUDAGraphMode, batch: BatchDescriptor | None = None) -> Generator[GraphStep]:
    """Run one step within a `with` block; the engine enters it around the wrapped callables.

    Args:
        mode: the concrete mode of the step.
        batch: its shape.
    """
    step = GraphStep(mode, batch)
    token = _step.set(step)
    try:
        yield step
    finally:
        _step.reset(token)


class StaticGraphWrapper(abc.ABC):
    """Runs a callable, or replays what was captured of it.

    Args:
        runnable: what is wrapped.
        vllm_config: the engine's configuration; the engine passes it by this name.
        runtime_mode: the concrete mode that this wrapper answers to: `PIECEWISE` or `FULL`.
        **kwargs: the engine's and the platform's options: `graph_pool`, the platform's
            `get_global_graph_pool`; `persistent`, names of parameters of `runnable` whose tensors stay
            where they are from call to call, such as the KV caches, and are not copied.

    Raises:
        ValueError: the mode is no concrete one that a graph can be captured in.
    """

    def __init__(
        self,
        runnable: Callable[..., Any],
        vllm_config: EngineConfig,
        runtime_mode: CUDAGraphMode,
        **kwargs: Any,
    ) -> None:
        if runtime_mode.name not in {"PIECEWISE", "FULL"}:
            raise ValueError(f"a graph is captured as PIECEWISE or FULL, not as {runtime_mode.name}")
        self.runnable = runnable
        self.vllm_config = vllm_config
        self.runtime_mode = runtime_mode
        self.options = kwargs

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the callable, replay its graph, or capture it.

        In a step whose mode is this wrapper's own, by `current_graph_step`, a graph of the step's shape is
        captured the first time and replayed later, on the inputs of the call. In any other step the
        callable runs. The answer is the caller's: a later step does not change it.
        """

    def unwrap(self) -> Callable[..., Any]:
        """Return the wrapped callable."""
        return self.runnable
