"""Stand-ins for the layers of a loaded model of the native engine, which decide the block size of its cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.engines.base import CachePages

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheSpec
    from platform_abc.config import EngineConfig

_STATE: Final = ((8, 32, 16), (3, 288))
"""Shapes of a small state, whose bytes are no multiple of a token's."""


@attrs.frozen
class _Layer:
    """One layer of a model, with what an engine asks it before there is a cache.

    Args:
        backend: the attention backend that was picked for it, or a state's.
        state: it keeps a state.
    """

    backend: Any
    state: bool = False

    def get_attn_backend(self) -> Any:
        """Return the backend."""
        return self.backend

    def get_kv_cache_spec(self, config: EngineConfig) -> KVCacheSpec | None:
        """Return what the layer stores."""
        from platform_abc.components.kv_cache import AttentionSpec, MambaSpec

        cache, model = config.cache_config, config.model_config
        if self.state:
            return MambaSpec(
                block_size=cache.block_size,
                shapes=_STATE,
                dtypes=("float32", "float32"),
                page_size_padded=cache.mamba_page_size_padded,
            )
        if model is None:
            return None
        return AttentionSpec(
            block_size=cache.block_size,
            num_kv_heads=model.get_num_kv_heads(config.parallel_config),
            head_size=model.get_head_size(),
            dtype=model.dtype,
            cache_dtype=cache.cache_dtype,
        )


class _State:
    """The backend of a layer that keeps a state."""

    @classmethod
    def is_ssm(cls) -> bool:
        """Say that it is one."""
        return True

    @staticmethod
    def get_name() -> str:
        """Return its name."""
        return "STATE"


def put_layers(config: EngineConfig, backends: Sequence[Any]) -> None:
    """Fill a config's `static_forward_context` as a loaded model does."""
    layers: dict[str, Any] = {
        f"layers.{number}.attention": _Layer(backend) for number, backend in enumerate(backends)
    }
    if config.model_config is not None and config.model_config.is_hybrid:
        layers["layers.0.state"] = _Layer(_State, state=True)
    config.compilation_config.static_forward_context = layers


def cache_pages(config: EngineConfig, backend: Any) -> CachePages | None:
    """Return the bytes of a page of the attention layers and of a state; None without a state."""
    from platform_abc.block_size import bytes_per_token, state_page_bytes

    model = config.model_config
    if model is None or not model.is_hybrid:
        return None
    cache = config.cache_config
    token = bytes_per_token(config, model, backend, cache.cache_dtype)
    return CachePages(cache.block_size * token, state_page_bytes(config), cache.mamba_page_size_padded)


def create_config(head_size: int) -> EngineConfig:
    """Create a config as the engine does when it starts, with the current platform's hooks in it.

    Args:
        head_size: of the model's layers.
    """
    from reference_engine.args import EngineArgs
    from reference_engine.engine_config import create_engine_config

    return create_engine_config(EngineArgs(hidden_size=head_size * EngineArgs().num_attention_heads))
