"""Facts about compilation and static graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.components import compile as passes
from platform_abc.config import CompilationConfig, CompilationMode, CUDAGraphMode, EngineConfig
from reference_model import compilation
from tests.reference_engine import components

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"


def named(name: str) -> Callable[..., str]:
    return lambda _cls, *_args: name


def test_the_pass_manager_is_put_under_the_platforms_key(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configured, and where the compile backend looks for it."""
    monkeypatch.setattr(passes, "_registered", {"nothing": lambda _config: components.Nothing()})
    use_platform(get_pass_manager_cls=named(f"{COMPONENTS}.CountingPasses"))
    config = EngineConfig()
    manager = compilation.install_passes(config)
    assert config.compilation_config.inductor_compile_config == {"post_grad_custom_post_pass": manager}
    assert [type(one) for one in manager.passes] == [components.Nothing]


def test_a_step_is_compiled_by_the_settled_backend(use_platform: Use) -> None:
    """Without compilation the step is left alone."""

    def step(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    use_platform()
    assert compilation.compile_step(step, EngineConfig()) is step
    config = EngineConfig(
        compilation_config=CompilationConfig(mode=CompilationMode.DYNAMO_TRACE_ONCE, backend="eager")
    )
    compiled = compilation.compile_step(step, config)
    assert compiled is not step
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert "post_grad_custom_post_pass" in config.compilation_config.inductor_compile_config


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
    assert compilation.wrap_in_graph(step, config_with(CUDAGraphMode.NONE)) is step
    assert compilation.wrap_in_graph(step, config_with(CUDAGraphMode.PIECEWISE)) is step
    platform = use_platform(**yes)
    platform.get_global_graph_pool = lambda: "pool"
    wrapped: Any = compilation.wrap_in_graph(step, config_with(CUDAGraphMode.FULL_AND_PIECEWISE))
    components.CountingWrapper.calls.clear()
    assert wrapped() == 3
    assert components.CountingWrapper.calls == ["FULL"]
    assert wrapped.options == {"graph_pool": "pool", "persistent": ("kv_caches",)}
    use_platform(support_static_graph_mode=lambda _cls: False)
    assert compilation.wrap_in_graph(step, config_with(CUDAGraphMode.FULL)) is step
    use_platform(**{**yes, "get_static_graph_wrapper_cls": named("collections.OrderedDict")})
    with pytest.raises(ValueError, match="get_static_graph_wrapper_cls of ChangedPlatform"):
        compilation.wrap_in_graph(step, config_with(CUDAGraphMode.FULL))
