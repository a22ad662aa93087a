"""Facts about the defaults of attention backends and implementations."""

from __future__ import annotations

from typing import Any

import pytest

from platform_abc.components.attention import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    MultipleOf,
)
from platform_abc.config import AttentionSelectorConfig


class Plain(AttentionBackend):
    @staticmethod
    def get_name() -> str:
        return "PLAIN"

    @staticmethod
    def get_impl_cls() -> type[AttentionImpl[Any]]:
        return Impl

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        raise NotImplementedError

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        return (2, num_blocks, block_size, num_kv_heads, head_size)


class Impl(AttentionImpl[AttentionMetadata]):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def facts(**changes: Any) -> AttentionSelectorConfig:
    plain: dict[str, Any] = {
        "head_size": 64,
        "dtype": "torch.float16",
        "kv_cache_dtype": "auto",
        "block_size": 16,
    }
    return AttentionSelectorConfig(**{**plain, **changes})


def test_a_plain_decoder_layer_is_served() -> None:
    """The defaults refuse nothing of the plain case."""
    assert Plain.validate_configuration(facts()) == []
    assert Plain.validate_configuration(facts(block_size=None, kv_cache_dtype=None)) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": "torch.float32"}, "dtype torch.float32 is not supported"),
        ({"kv_cache_dtype": "fp8"}, "KV cache dtype fp8 is not supported"),
        ({"use_mla": True}, "latent attention is not supported"),
        ({"use_sparse": True}, "sparse attention is not supported"),
        ({"has_sink": True}, "attention sinks is not supported"),
        ({"has_sliding_window": True}, "a sliding window is not supported"),
        ({"use_non_causal": True}, "non-causal attention is not supported"),
        ({"use_mm_prefix": True}, "a prefix in both directions is not supported"),
        ({"attn_type": "encoder"}, "attention type encoder is not supported"),
    ],
)
def test_what_a_backend_does_not_declare_is_a_reason(changes: dict[str, Any], reason: str) -> None:
    """Each fact that is off the plain case is refused by default, in words."""
    assert Plain.validate_configuration(facts(**changes)) == [reason]


def test_sizes_limit_heads_and_blocks() -> None:
    """Declared head sizes are exact, block sizes stand for their multiples."""

    class Limited(Plain):
        @classmethod
        def get_supported_head_sizes(cls) -> tuple[int, ...]:
            return (32, 64)

        @staticmethod
        def get_supported_kernel_block_sizes() -> tuple[int | MultipleOf, ...]:
            return (24, MultipleOf(16))

    assert [size for size in (16, 24, 32, 40, 48, 64) if Limited.supports_block_size(size)] == [
        16,
        24,
        32,
        48,
        64,
    ]
    assert Limited.supports_block_size(None)
    assert not Limited.supports_head_size(128)
    assert Limited.get_preferred_block_size(40) == 16
    assert Limited.get_preferred_block_size(48) == 48


def test_heads_must_be_shared_evenly() -> None:
    """Query heads are a multiple of key and value heads."""
    impl = Impl(8, 64, 0.125, num_kv_heads=2)
    assert impl.num_queries_per_kv == 4
    assert Impl(8, 64, 0.125).num_kv_heads == 8
    for heads in (3, 0, -1):
        with pytest.raises(ValueError, match="cannot share"):
            Impl(8, 64, 0.125, num_kv_heads=heads)


def test_an_unfinished_backend_cannot_be_mistaken_for_a_whole_one() -> None:
    """The four questions without a default must be answered."""
    assert AttentionBackend.__abstractmethods__ == {
        "get_name",
        "get_impl_cls",
        "get_builder_cls",
        "get_kv_cache_shape",
    }
    with pytest.raises(NotImplementedError):
        Plain.get_kv_cache_stride_order()
    assert Plain.full_cls_name() == (__name__, "Plain")
