"""The attention backend that runs wherever torch runs: its scaled dot product attention, paged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

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
from platforms import attention_choice
from platforms.components import decoder_limits, paged_sdpa

if TYPE_CHECKING:
    from platform_abc.config_values import AttentionSelectorConfig
    from platform_abc.types import DeviceCapability


@attrs.frozen(kw_only=True, eq=False)
class SdpaMetadata(AttentionMetadata):
    """One step's batch, with the lengths on the host, where the requests are walked through.

    Args:
        query_starts: where each request's tokens start, and where the last one's end.
        seq_lens: tokens of each request, with the new ones.
        block_table: int32 `[requests, blocks]`.
        slots: int64, where tokens are stored; padding left out.
        stored: int64, which tokens these are; None for all of the step.
        causal: a token sees only itself and what comes before.
        plans: what the first layer finds out of the batch for the others.
    """

    query_starts: list[int]
    seq_lens: list[int]
    block_table: torch.Tensor
    slots: torch.Tensor
    stored: torch.Tensor | None = None
    causal: bool = True
    plans: paged_sdpa.Plans = attrs.field(factory=paged_sdpa.Plans)

    @property
    def num_tokens(self) -> int:
        """Tokens of the step, padding left out."""
        return self.query_starts[-1]


class SdpaMetadataBuilder(AttentionMetadataBuilder[SdpaMetadata]):
    """Builds `SdpaMetadata` from the batch of a step; it copies the lengths to the host once."""

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> SdpaMetadata:
        """Build the metadata of one step.

        Args:
            common_prefix_len: not used: a shared prefix is attended to like any other.
            common_attn_metadata: the batch.
            fast_build: not used: there is one way only.

        Raises:
            ValueError: the batch contradicts itself; the text names the request.
        """
        batch = common_attn_metadata
        starts = paged_sdpa.numbers(batch.query_start_loc[: batch.num_reqs + 1])
        lengths = paged_sdpa.numbers(batch.seq_lens[: batch.num_reqs])
        block_size = self.kv_cache_spec.block_size
        paged_sdpa.check_batch(starts, lengths, batch.block_table.shape[1] * block_size)
        slots, stored = paged_sdpa.written_slots(batch.slot_mapping[: starts[-1]])
        return SdpaMetadata(
            query_starts=starts,
            seq_lens=lengths,
            block_table=batch.block_table[: batch.num_reqs],
            slots=slots,
            stored=stored,
            causal=batch.causal,
        )


class SdpaImpl(AttentionImpl[SdpaMetadata]):
    """Attention of one layer by `paged_sdpa`.

    Raises:
        ValueError: the heads cannot be shared evenly, or the window or scale makes no sense.
        NotSupported: what torch's attention has no place for: position biases, capped scores, other
            kinds of attention than a decoder's.
    """

    def check_arguments(self) -> None:
        """Refuse what torch's attention has no place for.

        Raises:
            ValueError: the window makes no sense.
            NotSupported: the model needs what is not there.
        """
        decoder_limits.check(self, TorchSdpaBackend.get_name())

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: SdpaMetadata | None,
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
        shape = (-1, self.num_kv_heads, self.head_size)
        paged_sdpa.write_cache(
            key.reshape(shape), value.reshape(shape), kv_cache, attn_metadata.slots, attn_metadata.stored
        )
        shaped = result.view(-1, self.num_heads, self.head_size)
        shaped[tokens:].zero_()
        paged_sdpa.attend(
            query.reshape(-1, self.num_heads, self.head_size)[:tokens],
            kv_cache,
            attn_metadata.block_table,
            attn_metadata.query_starts,
            attn_metadata.seq_lens,
            shaped[:tokens],
            scale=self.scale,
            causal=attn_metadata.causal,
            window=self.sliding_window,
            plans=attn_metadata.plans,
        )
        return result


class TorchSdpaBackend(AttentionBackend):
    """Attention by torch's `scaled_dot_product_attention` over a paged cache.

    Prefill, chunks of it and decode in one batch; grouped heads; sliding windows; any head and block size.
    """

    supported_dtypes: ClassVar[Sequence[str]] = attention_choice.SDPA_DTYPES
    supported_kv_cache_dtypes: ClassVar[Sequence[str]] = attention_choice.SDPA_CACHE_DTYPES

    @staticmethod
    def get_name() -> str:
        """Return the name by which a user can ask for this backend."""
        return "TORCH_SDPA"

    @staticmethod
    def get_impl_cls() -> type[AttentionImpl[Any]]:
        """Return the class that computes attention for one layer."""
        return SdpaImpl

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the class that builds the metadata of a step."""
        return SdpaMetadataBuilder

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
