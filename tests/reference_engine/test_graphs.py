"""Facts about static graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from platform_abc.config import CompilationConfig, CUDAGraphMode, EngineConfig
from reference_engine import graphs
from tests.reference_engine import components

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"


def named(name: str) -> Callable[..., str]:
    return lambda _cls, *_args: name


def config_with(mode: CUDAGraphMode) -> EngineConfig:
    return EngineConfig(compilation_config=CompilationConfig(cudagraph_mode=mode))


def test_a_step_is_wrapped_only_where_graphs_are_wanted_and_supported(use_platform: Use) -> None:
    """Otherwise the step itself comes back and the picker is not asked."""

    def step() -> int:
        return 3

    yes = {
        "support_static_graph_mode": lambda _cls: True,
        "get_static_graph_wrapper_cls": named(f"{COMPONENTS}.CountingWrapper"),
    }
    use_platform(**yes)
    assert graphs.wrap_in_graph(step, config_with(CUDAGraphMode.NONE)) is step
    assert graphs.wrap_in_graph(step, config_with(CUDAGraphMode.PIECEWISE)) is step
    platform = use_platform(**yes)
    platform.get_global_graph_pool = lambda: "pool"
    wrapped: Any = graphs.wrap_in_graph(step, config_with(CUDAGraphMode.FULL_AND_PIECEWISE))
    components.CountingWrapper.calls.clear()
    assert wrapped() == 3
    assert components.CountingWrapper.calls == ["FULL"]
    assert wrapped.options == {"graph_pool": "pool", "persistent": ("kv_caches",)}
    use_platform(support_static_graph_mode=lambda _cls: False)
    assert graphs.wrap_in_graph(step, config_with(CUDAGraphMode.FULL)) is step
    use_platform(**{**yes, "get_static_graph_wrapper_cls": named("collections.OrderedDict")})
    with pytest.raises(ValueError, match="get_static_graph_wrapper_cls of ChangedPlatform"):
        graphs.wrap_in_graph(step, config_with(CUDAGraphMode.FULL))
