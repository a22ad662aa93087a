"""The attention selector: asks the platform once for each combination of facts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

from platform_abc.components.attention import AttentionBackend
from platform_abc.config import (
    AttentionBackendEnum,
    AttentionSelectorConfig,
    MLAPrefillSelectorConfig,
    get_current_config,
)
from platform_abc.errors import NotSupported
from platform_abc.hooks.calls import named
from platform_abc.picked import resolve_picked

if TYPE_CHECKING:
    import torch

    from platform_abc.config import CacheDType


def get_attn_backend(facts: AttentionSelectorConfig, num_heads: int | None = None) -> type[AttentionBackend]:
    """Return the attention backend for one kind of layer, under the current config.

    Args:
        facts: of the layer.
        num_heads: query heads of this rank.

    Raises:
        ValueError: the platform names no backend, or one that is not valid here.
        QualnameError: the name cannot be imported.
    """
    from platforms import current_platform

    config = get_current_config()
    return _select(
        config.attention_config.backend,
        facts,
        num_heads,
        # A picker may look up the run-wide dtype in the current config, and another platform answers
        # differently, so both belong to the key.
        run_kv_cache_dtype=config.cache_config.cache_dtype,
        platform_type=type(current_platform),
    )


@cache
def _select(
    backend: AttentionBackendEnum | None,
    facts: AttentionSelectorConfig,
    num_heads: int | None,
    *,
    run_kv_cache_dtype: CacheDType,
    platform_type: type,
) -> type[AttentionBackend]:
    from platforms import current_platform

    del run_kv_cache_dtype, platform_type
    try:
        with named("get_attn_backend_cls", current_platform):
            name = current_platform.get_attn_backend_cls(
                backend,
                attn_selector_config=facts,
                num_heads=num_heads,
            )
    except NotSupported as error:
        raise ValueError(
            f"{current_platform.device_name} has no attention backend for {facts}: {error}"
        ) from error
    if not name:
        raise ValueError(
            f"invalid attention backend for {current_platform.device_name}: get_attn_backend_cls of "
            f"{type(current_platform).__name__} returned {name!r}, expected a dotted name"
        )
    # Never instantiated, so it is the class that counts.
    picked = resolve_picked("get_attn_backend_cls", name, AttentionBackend, current_platform)
    chosen = cast("type[AttentionBackend]", picked)
    device_name, found = current_platform.device_name, chosen.get_name()
    if backend not in (None, AttentionBackendEnum.CUSTOM) and found != backend.name:
        raise ValueError(
            f"attention backend {backend.name} was asked for, but {device_name} chose {found}: "
            "a platform must refuse a backend that it does not have, not replace it"
        )
    reasons = chosen.validate_configuration(facts)
    if reasons:
        raise ValueError(
            f"attention backend {found} cannot serve this layer on {device_name}: {'; '.join(reasons)}"
        )
    return chosen


@cache
def get_vit_attn_backend(head_size: int, dtype: torch.dtype) -> AttentionBackendEnum:
    """Return the attention backend for a vision encoder.

    Args:
        head_size: elements of one head.
        dtype: dtype of queries.

    Raises:
        ValueError: the platform names one that it does not list itself.
    """
    from platforms import current_platform

    with named("get_vit_attn_backend", current_platform):
        chosen: AttentionBackendEnum = current_platform.get_vit_attn_backend(head_size, dtype)
    allowed = current_platform.get_supported_vit_attn_backends()
    if chosen not in allowed:
        raise ValueError(
            f"get_vit_attn_backend of {type(current_platform).__name__} returned {chosen!r}, expected one of those "
            f"that get_supported_vit_attn_backends lists: {list(allowed)}"
        )
    return chosen


def get_mla_prefill_backend(dtype: torch.dtype, *, is_r1_compatible: bool = False) -> type[object]:
    """Return the class that computes prefill for multi-head latent attention.

    Args:
        dtype: dtype of queries.
        is_r1_compatible: the head sizes are those of the first model family of this kind.

    Raises:
        NotSupported: the platform has none.
        ValueError: what it answers is no class.
    """
    from platforms import current_platform

    with named("get_mla_prefill_backend_cls", current_platform):
        chosen: object = current_platform.get_mla_prefill_backend_cls(
            MLAPrefillSelectorConfig(dtype, is_r1_compatible)
        )
    if not isinstance(chosen, type):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin answers anything
        raise ValueError(
            f"get_mla_prefill_backend_cls of {type(current_platform).__name__} returned {chosen!r}, expected a class"
        )
    return chosen


def clear_cache() -> None:
    """Forget all answers, so that the platform is asked again."""
    _select.cache_clear()
    get_vit_attn_backend.cache_clear()
