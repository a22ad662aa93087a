"""Compilation of the model: the platform's backend, and its passes under the platform's key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from platform_abc.components.compile import PassManager
from platform_abc.config import CompilationMode
from reference_engine.picked import resolve_picked

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

C = TypeVar("C", bound=Callable[..., object])


def install_passes(config: EngineConfig) -> PassManager:
    """Make the pass manager that the platform names and put it where its compile backend looks.

    Args:
        config: the configuration; `inductor_compile_config` gets the manager under the platform's key.

    Raises:
        ValueError: what the platform names is no pass manager.
    """
    from platforms import current_platform

    manager = resolve_picked("get_pass_manager_cls", current_platform.get_pass_manager_cls(), PassManager)()
    manager.configure(config)
    config.compilation_config.inductor_compile_config[current_platform.pass_key] = manager
    return manager


def compile_step(step: C, config: EngineConfig) -> C:
    """Return the step, compiled where the configuration wants it.

    Args:
        step: the model's forward function.
        config: the configuration; its backend was settled when it was created.
    """
    compilation = config.compilation_config
    if compilation.mode is CompilationMode.NONE:
        return step
    import torch

    install_passes(config)
    options = compilation.inductor_compile_config if compilation.backend == "inductor" else None
    # torch's own annotation of `compile` is partly unknown to checkers.
    compile_: Callable[..., object] = getattr(torch, "compile")  # noqa: B009
    return cast("C", compile_(step, backend=compilation.backend or "inductor", options=options))
