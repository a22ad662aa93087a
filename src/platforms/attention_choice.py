"""Which attention backend a platform names: one rule for all platforms of this package.

What was asked for is taken, or refused with the valid names; it is never replaced. Only what the
selector's config itself says is looked at, so nothing here imports torch or a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig

TORCH_SDPA: Final = "platforms.components.attention.TorchSdpaBackend"
"""The backend that runs wherever torch runs."""

TRITON_ATTN: Final = "platforms.components.triton_attention.TritonAttentionBackend"
"""The backend that runs wherever Triton compiles for."""

SDPA_BACKENDS: Final[Mapping[str, str]] = {"TORCH_SDPA": TORCH_SDPA}
"""Name as asked for -> dotted name, the default first, for a platform that has torch's SDPA alone."""

TRITON_BACKENDS: Final[Mapping[str, str]] = {"TRITON_ATTN": TRITON_ATTN, "TORCH_SDPA": TORCH_SDPA}
"""The same for a platform that Triton compiles for."""

LARGEST_TRITON_HEAD: Final = 256
"""Largest head size of `TRITON_ATTN`, by what a program can hold on the chip."""

SDPA_DTYPES: Final = ("float32", "bfloat16", "float16")
"""Dtypes of queries that the backends compute in."""

SDPA_CACHE_DTYPES: Final = ("auto", "bfloat16", "float16")
"""Dtypes that they keep keys and values in; `auto` is that of the queries."""

_TRITON: Final = "TRITON_ATTN"

_UNKNOWN: Final = {
    "use_mla": "multi-head latent attention",
    "use_sparse": "sparse attention",
    "has_sink": "attention sinks",
    "use_mm_prefix": "bidirectional attention within images",
    "use_per_head_quant_scales": "scales per head",
    "use_pcp": "prefill context parallelism",
    "use_dcp": "decode context parallelism",
    "use_rswa": "ring-buffered sliding windows",
    "use_batch_invariant": "results that do not depend on the batch",
    "use_adaptive_verification": "query lengths that only the device knows",
}
"""What none of the backends can do, by the selector's field."""


def choose(
    device_name: str,
    backends: Mapping[str, str],
    selected: AttentionBackendEnum | None,
    selector: AttentionSelectorConfig,
    without_triton: Callable[[], str] = lambda: "",
) -> str:
    """Return the dotted name of the backend for a layer.

    Args:
        device_name: the platform, for messages.
        backends: name as asked for -> dotted name, the default first.
        selected: what the user asked for; None if nothing.
        selector: the facts of the layer.
        without_triton: returns why Triton's kernels do not run here; empty if they do. Called only where
            the answer depends on it.

    Returns:
        The name.

    Raises:
        ConfigError: the one asked for is none of `backends`, or the layer needs what it cannot do.
    """
    if selected is not None and selected.name not in backends:
        raise ConfigError(not_valid(device_name, selected.name, backends))
    tried = list(backends) if selected is None else [selected.name]
    reasons: list[str] = []
    for name in tried:
        reasons = refusals(selector)
        if name == _TRITON and not reasons:
            reasons = _triton_refusals(selector, without_triton)
        if not reasons:
            return backends[name]
    raise ConfigError(
        f"attention backend {tried[-1]} on {device_name} cannot do {'; '.join(reasons)}; "
        f"this platform has no other than {', '.join(backends)}"
    )


def _triton_refusals(selector: AttentionSelectorConfig, without_triton: Callable[[], str]) -> list[str]:
    if selector.head_size > LARGEST_TRITON_HEAD:
        return [f"a head size of {selector.head_size} (but up to {LARGEST_TRITON_HEAD})"]
    why = without_triton()
    return [f"anything without Triton's kernels: {why}"] if why else []


def check_name(device_name: str, backends: Mapping[str, str], selected: AttentionBackendEnum | None) -> None:
    """Refuse a backend that the platform does not have, as early as the config is built.

    Args:
        device_name: the platform, for messages.
        backends: as for `choose`.
        selected: `attention_config.backend`.

    Raises:
        ConfigError: it is none of `backends`.
    """
    if selected is not None and selected.name not in backends:
        raise ConfigError("attention_config.backend: " + not_valid(device_name, selected.name, backends))


def not_valid(device_name: str, name: str, backends: Mapping[str, str]) -> str:
    """Return the text that refuses a backend and names the valid ones.

    Args:
        device_name: the platform.
        name: the backend that was asked for.
        backends: as for `choose`.
    """
    return (
        f"attention backend {name} is not valid on {device_name}; valid are: {', '.join(backends)}. "
        f"Pass one of them to --attention-backend, or leave it out"
    )


def refusals(selector: AttentionSelectorConfig) -> list[str]:
    """Return what a layer needs that no backend can do, in words; empty if it can be served."""
    reasons = [words for field, words in _UNKNOWN.items() if getattr(selector, field, False)]
    dtype = str(selector.dtype).removeprefix("torch.")
    if dtype not in SDPA_DTYPES:
        reasons.append(f"dtype {dtype} (but {', '.join(SDPA_DTYPES)})")
    if selector.kv_cache_dtype is not None and selector.kv_cache_dtype not in SDPA_CACHE_DTYPES:
        reasons.append(f"a KV cache of {selector.kv_cache_dtype} (but {', '.join(SDPA_CACHE_DTYPES)})")
    kind = getattr(selector.attn_type, "value", selector.attn_type)
    if kind != "decoder":
        reasons.append(f"attention of the kind {kind}")
    if selector.block_size is not None and selector.block_size < 1:
        reasons.append(f"a block size of {selector.block_size}")
    return reasons
