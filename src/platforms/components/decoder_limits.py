"""What the attention implementations of this package have no place for, refused when a layer is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_abc.config_values import AttentionType
from platform_abc.errors import NotSupported
from platforms.attention_choice import SDPA_CACHE_DTYPES

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionImpl


def check(impl: AttentionImpl[Any], backend: str) -> None:
    """Refuse arguments that mean something else than a decoder's plain attention.

    Args:
        impl: with its arguments as attributes.
        backend: name of the backend, for the error.

    Raises:
        ValueError: the window makes no sense.
        NotSupported: the model needs what is not there.
    """
    if impl.sliding_window is not None and impl.sliding_window < 1:
        raise ValueError(f"expected a sliding window of at least 1 token, or None, got {impl.sliding_window}")
    if impl.alibi_slopes is not None:
        raise NotSupported("alibi_slopes", backend, "use a model without position biases in its scores")
    # Zero is how some models spell "no cap".
    if impl.logits_soft_cap:
        raise NotSupported("logits_soft_cap", backend, "use a model whose scores are not capped")
    if getattr(impl.attn_type, "value", impl.attn_type) != AttentionType.DECODER.value:
        raise NotSupported(f"attn_type {impl.attn_type}", backend, "use a decoder-only model")
    if impl.kv_cache_dtype not in SDPA_CACHE_DTYPES:
        raise NotSupported(
            f"kv_cache_dtype {impl.kv_cache_dtype}", backend, f"choose from {', '.join(SDPA_CACHE_DTYPES)}"
        )
