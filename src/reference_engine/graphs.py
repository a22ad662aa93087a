"""Static graphs: wrap the model's step in what the platform picks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from platform_abc.components.graph import StaticGraphWrapper
from platform_abc.config import CUDAGraphMode
from reference_engine.picked import resolve_picked

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

C = TypeVar("C", bound=Callable[..., object])


def wrap_in_graph(runnable: C, config: EngineConfig) -> C:
    """Return the callable, wrapped where the configuration wants whole steps captured.

    Args:
        runnable: the step.
        config: the engine's configuration.

    Raises:
        NotSupported: the platform has no wrapper.
        ValueError: what it names is no such wrapper.
    """
    from platforms import current_platform

    mode = config.compilation_config.cudagraph_mode
    if not (mode.has_full_cudagraphs() and current_platform.support_static_graph_mode()):
        return runnable
    picked = current_platform.get_static_graph_wrapper_cls()
    chosen = resolve_picked("get_static_graph_wrapper_cls", picked, StaticGraphWrapper)
    wrapper = chosen(
        runnable,
        vllm_config=config,
        runtime_mode=CUDAGraphMode.FULL,
        graph_pool=current_platform.get_global_graph_pool(),
        persistent=("kv_caches",),
    )
    return cast("C", wrapper)
