"""The attention backend of the accelerators that Triton compiles for: a kernel over the paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from platform_abc.components.attention import (
    AttentionImpl,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
)
from platform_abc.components.kernels import KERNELS
from platforms import attention_choice
from platforms.components import core_kernels, paged_sdpa, paged_triton
from platforms.components.paged_backend import PagedBackend, PagedImpl, PagedMetadata

if TYPE_CHECKING:
    import torch

WRITE: Final = core_kernels.write_cache.__name__
"""The core kernel that stores a step's keys and values."""


@attrs.frozen(kw_only=True, eq=False)
class TritonMetadata(PagedMetadata):
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


class TritonImpl(PagedImpl[TritonMetadata]):
    """Attention of one layer by `paged_triton`."""

    backend_name: ClassVar[str] = "TRITON_ATTN"

    def store(
        self, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, attn_metadata: TritonMetadata
    ) -> None:
        """Store the step's keys and values by the core kernel."""
        KERNELS.get(WRITE)(key, value, kv_cache, attn_metadata.slot_mapping)

    def attend(
        self, query: torch.Tensor, kv_cache: torch.Tensor, attn_metadata: TritonMetadata, out: torch.Tensor
    ) -> None:
        """Attend in one launch."""
        paged_triton.attend(
            query,
            kv_cache,
            attn_metadata.block_table,
            attn_metadata.query_starts,
            attn_metadata.seq_lens,
            out,
            scale=self.scale,
            max_query_len=attn_metadata.max_query_len,
            causal=attn_metadata.causal,
            window=self.sliding_window,
        )


class TritonAttentionBackend(PagedBackend):
    """Attention by a Triton kernel over a paged cache."""

    @staticmethod
    def get_name() -> str:
        """Return the name by which a user can ask for this backend."""
        return TritonImpl.backend_name

    @staticmethod
    def get_impl_cls() -> type[AttentionImpl[Any]]:
        """Return the class that computes attention for one layer."""
        return TritonImpl

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the class that builds the metadata of a step."""
        return TritonMetadataBuilder

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Say whether a program can hold the rows of heads of this size."""
        return 1 <= head_size <= attention_choice.LARGEST_TRITON_HEAD
