"""The wrapper that captures a callable as a static graph, as `get_static_graph_wrapper_cls` names it."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from platform_abc.config import CUDAGraphMode, EngineConfig


class StaticGraphWrapper(abc.ABC):
    """Runs a callable, or replays what was captured of it.

    Args:
        runnable: what is wrapped.
        vllm_config: the engine's configuration; the engine passes it by this name.
        runtime_mode: the concrete mode that this wrapper answers to: `PIECEWISE` or `FULL`.
        **kwargs: the platform's own options.

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

        In a step whose mode is this wrapper's own, a graph of the step's batch size is captured the
        first time and replayed later, on the inputs of the call. In any other step the callable runs.
        """

    def unwrap(self) -> Callable[..., Any]:
        """Return the wrapped callable."""
        return self.runnable
