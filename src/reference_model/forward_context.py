"""The forward context: what layers look up during one step, with what the platform adds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

import attrs

from platform_abc.config import CUDAGraphMode, EngineConfig
from platform_abc.hooks.calls import named

if TYPE_CHECKING:
    import torch

    from platform_abc.components.attention import AttentionMetadata


@attrs.define(kw_only=True)
class ForwardContext:
    """One step.

    Args:
        config: the engine's configuration.
        attn_metadata: each layer's metadata, by layer name.
        kv_caches: each layer's cache, by layer name.
        additional: what the platform added.
        seconds: how long the step took on the device, where it was measured.
    """

    config: EngineConfig
    attn_metadata: Mapping[str, AttentionMetadata]
    kv_caches: Mapping[str, torch.Tensor]
    additional: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    seconds: float | None = None


_current: ContextVar[ForwardContext | None] = ContextVar("reference_model_forward_context", default=None)


def get_forward_context() -> ForwardContext:
    """Return the context of the step that runs.

    Raises:
        RuntimeError: no step runs.
    """
    context = _current.get()
    if context is None:
        raise RuntimeError("no step runs here: a layer is called within `set_forward_context` only")
    return context


@contextlib.contextmanager
def set_forward_context(
    config: EngineConfig,
    attn_metadata: Mapping[str, AttentionMetadata],
    kv_caches: Mapping[str, torch.Tensor],
    num_tokens: int,
    *,
    cudagraph_runtime_mode: CUDAGraphMode = CUDAGraphMode.NONE,
    measure: bool = False,
) -> Generator[ForwardContext]:
    """Run one step within a `with` block.

    Args:
        config: the engine's configuration.
        attn_metadata: each layer's metadata, by layer name.
        kv_caches: each layer's cache, by layer name.
        num_tokens: tokens of the step.
        cudagraph_runtime_mode: how the step runs.
        measure: wait for the device at the end, where it can be waited for, and note the time.

    Raises:
        TypeError: the platform added something that is no mapping, or its mode is no context.
    """
    from platforms import current_platform

    with named("set_additional_forward_context", current_platform):
        given = current_platform.set_additional_forward_context(
            attn_metadata=attn_metadata,
            vllm_config=config,
            dp_metadata=None,
            num_tokens=num_tokens,
            num_tokens_across_dp=None,
            cudagraph_runtime_mode=cudagraph_runtime_mode,
            batch_descriptor=None,
            ubatch_slices=None,
        )
    # From a vendor, so annotations prove nothing, here and below.
    if not isinstance(cast("object", given), Mapping):
        raise TypeError(
            f"set_additional_forward_context of {type(current_platform).__name__} returned {given!r}, "
            "expected a mapping"
        )
    context = ForwardContext(
        config=config,
        attn_metadata=attn_metadata,
        kv_caches=kv_caches,
        additional=given,
    )
    with named("inference_mode", current_platform):
        mode = current_platform.inference_mode()
    if not isinstance(cast("object", mode), AbstractContextManager):
        raise TypeError(
            f"inference_mode of {type(current_platform).__name__} returned {mode!r}, expected a context manager"
        )
    started = time.perf_counter()
    token = _current.set(context)
    try:
        with mode:
            yield context
        if measure:
            # The fallback answers None where torch has no such name for this device.
            synchronize = current_platform.synchronize
            if synchronize is not None:
                synchronize()
            context.seconds = time.perf_counter() - started
    finally:
        _current.reset(token)
