"""The attention backend that the picker names: limits, metadata, and an implementation over the custom op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import torch

from dummy_platform import ops
from platform_abc.components.attention import (
    AttentionBackend,
    AttentionImpl,
    AttentionLayer,
    AttentionMetadata,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
    MultipleOf,
)
from platform_abc.errors import NotSupported


@attrs.frozen
class DummyMetadata(AttentionMetadata):
    """What the op needs of a step's batch, as it comes.

    Args:
        batch: the batch.
    """

    batch: CommonAttentionMetadata


class DummyMetadataBuilder(AttentionMetadataBuilder[DummyMetadata]):
    """Keeps the batch: the op reads it as it is."""

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> DummyMetadata:
        """Build the metadata of one step."""
        return DummyMetadata(common_attn_metadata)


class DummyAttentionImpl(AttentionImpl[DummyMetadata]):
    """Attention of one layer, by the custom op."""

    def check_arguments(self) -> None:
        """Refuse what the op does not compute; without this it would be left out without a word."""
        if self.alibi_slopes is not None:
            raise NotSupported("alibi_slopes", type(self).__name__, "choose a model without position biases")
        if self.logits_soft_cap is not None:
            raise NotSupported("logits_soft_cap", type(self).__name__, "choose a model without capped scores")

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: DummyMetadata,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store this step's keys and values, then attend; shapes as in `AttentionImpl.forward`."""
        ops.register()
        batch = attn_metadata.batch
        result: torch.Tensor = torch.ops.dummy_platform.paged_attention(
            query,
            key,
            value,
            kv_cache,
            batch.slot_mapping,
            batch.block_table,
            batch.query_start_loc,
            batch.seq_lens,
            self.scale,
            batch.causal,
        )
        return result if output is None else output.copy_(result)


class DummyAttentionBackend(AttentionBackend):
    """Attention on the dummy device."""

    supported_dtypes: ClassVar[Sequence[str]] = ("float32", "bfloat16", "float16")

    @staticmethod
    def get_name() -> str:
        """Return `CUSTOM`, the name by which users ask for a backend from outside the engine's tree."""
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[DummyAttentionImpl]:
        """Return the class that computes attention for one layer."""
        return DummyAttentionImpl

    @staticmethod
    def get_builder_cls() -> type[DummyMetadataBuilder]:
        """Return the class that builds the metadata of a step."""
        return DummyMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """Return `(2, N, B, K, D)`: keys, then values."""
        return (2, num_blocks, block_size, num_kv_heads, head_size)

    @staticmethod
    def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
        """Return that any multiple of 8 tokens will do."""
        return (MultipleOf(8),)
