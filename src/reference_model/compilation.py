"""Compilation and static graphs: the platform's compile backend with its passes, and its graph wrapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from platform_abc.components.compile import PassManager
from platform_abc.components.graph import StaticGraphWrapper
from platform_abc.config import CompilationMode, CUDAGraphMode
from platform_abc.picked import resolve_picked

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

    manager = resolve_picked(
        "get_pass_manager_cls", current_platform.get_pass_manager_cls(), PassManager, current_platform
    )()
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
    chosen = resolve_picked("get_static_graph_wrapper_cls", picked, StaticGraphWrapper, current_platform)
    wrapper = chosen(
        runnable,
        vllm_config=config,
        runtime_mode=CUDAGraphMode.FULL,
        graph_pool=current_platform.get_global_graph_pool(),
        persistent=("kv_caches",),
    )
    return cast("C", wrapper)
