"""The attention backend that runs wherever torch runs: its scaled dot product attention, paged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from platform_abc.components.attention import (
    AttentionImpl,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
)
from platforms.components import paged_sdpa
from platforms.components.paged_backend import PagedBackend, PagedImpl, PagedMetadata

if TYPE_CHECKING:
    import torch


@attrs.frozen(kw_only=True, eq=False)
class SdpaMetadata(PagedMetadata):
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


class SdpaImpl(PagedImpl[SdpaMetadata]):
    """Attention of one layer by `paged_sdpa`."""

    backend_name: ClassVar[str] = "TORCH_SDPA"

    def store(
        self, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, attn_metadata: SdpaMetadata
    ) -> None:
        """Store the step's keys and values in the slots that the builder has sorted out."""
        paged_sdpa.write_cache(key, value, kv_cache, attn_metadata.slots, attn_metadata.stored)

    def attend(
        self, query: torch.Tensor, kv_cache: torch.Tensor, attn_metadata: SdpaMetadata, out: torch.Tensor
    ) -> None:
        """Attend in the groups that the builder has planned."""
        paged_sdpa.attend(
            query,
            kv_cache,
            attn_metadata.block_table,
            attn_metadata.query_starts,
            attn_metadata.seq_lens,
            out,
            scale=self.scale,
            causal=attn_metadata.causal,
            window=self.sliding_window,
            plans=attn_metadata.plans,
        )


class TorchSdpaBackend(PagedBackend):
    """Attention by torch's `scaled_dot_product_attention` over a paged cache, with heads of any size."""

    @staticmethod
    def get_name() -> str:
        """Return the name by which a user can ask for this backend."""
        return SdpaImpl.backend_name

    @staticmethod
    def get_impl_cls() -> type[AttentionImpl[Any]]:
        """Return the class that computes attention for one layer."""
        return SdpaImpl

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the class that builds the metadata of a step."""
        return SdpaMetadataBuilder
