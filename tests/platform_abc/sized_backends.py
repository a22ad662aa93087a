"""Backends of chosen block sizes, layers that have them, and a config of such layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from platform_abc.components.attention import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadataBuilder,
    MultipleOf,
)
from platform_abc.components.kv_cache import KVCacheSpec, MambaSpec
from platform_abc.config import CacheConfig, CompilationConfig, EngineConfig, ModelConfig

Backend = type[AttentionBackend]


def backend(
    name: str,
    *sizes: int | MultipleOf,
    exact: bool = False,
    least: int | None = None,
    most: int | None = None,
    prefers: object = None,
    ssm: bool = False,
) -> Backend:
    """Make a backend: `exact` takes a plain size only as it is; `least` and `most` are limits."""

    class Made(AttentionBackend):
        @staticmethod
        def get_name() -> str:
            return name

        @staticmethod
        def get_impl_cls() -> type[AttentionImpl[Any]]:
            raise NotImplementedError

        @staticmethod
        def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
            raise NotImplementedError

        @staticmethod
        def get_kv_cache_shape(*_: Any) -> tuple[int, ...]:
            raise NotImplementedError

        @staticmethod
        def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
            return sizes

        @classmethod
        def supports_block_size(cls, block_size: int | None) -> bool:
            if block_size is not None and not (least or 0) <= block_size <= (most or math.inf):
                return False
            if exact and block_size is not None:
                bases = [size.base for size in sizes if isinstance(size, MultipleOf)]
                return block_size in sizes or any(block_size % base == 0 for base in bases)
            return super().supports_block_size(block_size)

        @classmethod
        def get_preferred_block_size(cls, default_block_size: int) -> int:
            if prefers is not None:
                return prefers  # type: ignore[return-value]
            return super().get_preferred_block_size(default_block_size)

        @classmethod
        def is_ssm(cls) -> bool:
            return ssm

    return Made


class Layer:
    """An attention layer that stores `spec`."""

    def __init__(self, made: Backend, spec: KVCacheSpec | None = None) -> None:
        self.made = made
        self.spec = spec

    def get_attn_backend(self) -> Backend:
        return self.made

    def get_kv_cache_spec(self, config: EngineConfig) -> KVCacheSpec | None:
        return self.spec


def config_of(*layers: object, block_size: int | None = None, **parts: Any) -> EngineConfig:
    model: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 2, "dtype": "float16"}
    model.update(parts.pop("model", {}))
    context = {f"layers.{index}": layer for index, layer in enumerate(layers)}
    return EngineConfig(
        model_config=ModelConfig(**model),
        cache_config=CacheConfig(block_size=block_size, **parts),
        compilation_config=CompilationConfig(static_forward_context=context),
    )


def state(num_bytes: int) -> MambaSpec:
    return MambaSpec(block_size=1, shapes=[(num_bytes,)], dtypes=["uint8"])
