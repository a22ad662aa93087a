"""The attention backend of the accelerators that Triton compiles for: a kernel over the paged cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import torch

from platform_abc.components.attention import (
    AttentionBackend,
    AttentionImpl,
    AttentionLayer,
    AttentionMetadata,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
    MultipleOf,
)
from platform_abc.components.kernels import KERNELS
from platforms import attention_choice
from platforms.components import core_kernels, decoder_limits, paged_sdpa, paged_triton

if TYPE_CHECKING:
    from platform_abc.config_values import AttentionSelectorConfig
    from platform_abc.types import DeviceCapability

WRITE: Final = core_kernels.write_cache.__name__
"""The core kernel that stores a step's keys and values."""


@attrs.frozen(kw_only=True, eq=False)
class TritonMetadata(AttentionMetadata):
    """One step's batch, on the device; the host knows only what fixes the shape of the launch.

    Args:
        query_starts: int32 `[requests + 1]`.
        seq_lens: int32 `[requests]`.
        block_table: int32 `[requests, blocks]`.
        slot_mapping: int64 `[tokens]`.
        max_query_len: most new tokens of one request.
        causal: a token sees only itself and what comes before.
    """

    replayable: ClassVar[bool] = True

    query_starts: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    max_query_len: int
    causal: bool = True

    @property
    def num_tokens(self) -> int:
        """Tokens of the step, padding left out."""
        return self.slot_mapping.shape[0]


class TritonMetadataBuilder(AttentionMetadataBuilder[TritonMetadata]):
    """Builds `TritonMetadata` from the batch of a step; nothing is copied to the host."""

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> TritonMetadata:
        """Build the metadata of one step.

        Args:
            common_prefix_len: not used: a shared prefix is attended to like any other.
            common_attn_metadata: the batch.
            fast_build: not used: there is one way only.

        Raises:
            ValueError: the batch lies on the host and contradicts itself; the text names the request.
        """
        batch = common_attn_metadata
        if batch.seq_lens.device.type == "cpu":
            # Reading a device's tensors would wait for it in every step.
            paged_sdpa.check_batch(
                paged_sdpa.numbers(batch.query_start_loc[: batch.num_reqs + 1]),
                paged_sdpa.numbers(batch.seq_lens[: batch.num_reqs]),
                batch.block_table.shape[1] * self.kv_cache_spec.block_size,
            )
        return TritonMetadata(
            query_starts=batch.query_start_loc[: batch.num_reqs + 1],
            seq_lens=batch.seq_lens[: batch.num_reqs],
            block_table=batch.block_table[: batch.num_reqs],
            slot_mapping=batch.slot_mapping[: batch.num_actual_tokens],
            max_query_len=batch.max_query_len,
            causal=batch.causal,
        )


class TritonImpl(AttentionImpl[TritonMetadata]):
    """Attention of one layer by `paged_triton`.

    Raises:
        ValueError: the heads cannot be shared evenly, or the window makes no sense.
        NotSupported: what the kernel has no place for: position biases, capped scores, other kinds of
            attention than a decoder's.
    """

    def check_arguments(self) -> None:
        """Refuse what the kernel has no place for.

        Raises:
            ValueError: the window makes no sense.
            NotSupported: the model needs what is not there.
        """
        decoder_limits.check(self, TritonAttentionBackend.get_name())

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: TritonMetadata | None,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store this step's keys and values, then attend over all that is stored.

        Args:
            layer: not read.
            query: `[T, H, D]`.
            key: `[T, K, D]`.
            value: `[T, K, D]`.
            kv_cache: `[2, N, B, K, D]`, changed in place.
            attn_metadata: of this step; None in a profiling run, whose result does not matter.
            output: `[T, H, D]` to be filled; None allocates it.

        Returns:
            `[T, H, D]`; rows beyond the step's tokens are zero.
        """
        result = torch.empty_like(query) if output is None else output
        if attn_metadata is None:
            return result.zero_()
        tokens = attn_metadata.num_tokens
        kv_shape = (-1, self.num_kv_heads, self.head_size)
        KERNELS.get(WRITE)(
            key.reshape(kv_shape), value.reshape(kv_shape), kv_cache, attn_metadata.slot_mapping
        )
        shaped = result.view(-1, self.num_heads, self.head_size)
        shaped[tokens:].zero_()
        paged_triton.attend(
            query.reshape(-1, self.num_heads, self.head_size)[:tokens],
            kv_cache,
            attn_metadata.block_table,
            attn_metadata.query_starts,
            attn_metadata.seq_lens,
            shaped[:tokens],
            scale=self.scale,
            max_query_len=attn_metadata.max_query_len,
            causal=attn_metadata.causal,
            window=self.sliding_window,
        )
        return result


class TritonAttentionBackend(AttentionBackend):
    """Attention by a Triton kernel over a paged cache.

    Prefill, chunks of it and decode in one batch; grouped heads; sliding windows; any block size.
    """

    supported_dtypes: ClassVar[Sequence[str]] = attention_choice.SDPA_DTYPES
    supported_kv_cache_dtypes: ClassVar[Sequence[str]] = attention_choice.SDPA_CACHE_DTYPES

    @staticmethod
    def get_name() -> str:
        """Return the name by which a user can ask for this backend."""
        return "TRITON_ATTN"

    @staticmethod
    def get_impl_cls() -> type[AttentionImpl[Any]]:
        """Return the class that computes attention for one layer."""
        return TritonImpl

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the class that builds the metadata of a step."""
        return TritonMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",  # noqa: ARG004  the contract's, for layouts that pack
    ) -> tuple[int, ...]:
        """Return the shape of one layer's cache, `(2, N, B, K, D)`: keys, then values.

        Args:
            num_blocks: `N`.
            block_size: `B`, in tokens.
            num_kv_heads: `K` of this rank.
            head_size: `D`.
            cache_dtype_str: not used: every dtype is stored element by element.
        """
        return paged_sdpa.cache_shape(num_blocks, block_size, num_kv_heads, head_size)

    @staticmethod
    def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
        """Return that every block size works."""
        return (MultipleOf(1),)

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Say whether a program can hold the rows of heads of this size."""
        return 1 <= head_size <= attention_choice.LARGEST_TRITON_HEAD

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Say yes."""
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        """Say yes."""
        return True

    @classmethod
    def validate_configuration(
        cls,
        config: AttentionSelectorConfig,
        capability: DeviceCapability | None = None,
    ) -> list[str]:
        """Return the reasons why this backend cannot serve a layer; empty if it can.

        Args:
            config: what the picker was asked.
            capability: the device's capability, which does not matter here.
        """
        common = super().validate_configuration(config, capability)
        return common or [f"{words} is not supported" for words in attention_choice.refusals(config)]
