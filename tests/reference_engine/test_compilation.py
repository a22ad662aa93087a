"""Facts about compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.components import compile as passes
from platform_abc.config import CompilationConfig, CompilationMode, EngineConfig
from reference_engine import compilation
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
