"""An attention backend of the zoo's own, written plainly, and one that does it in another way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

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
from platform_abc.errors import NotSupported


@attrs.frozen(eq=False)
class Batch(AttentionMetadata):
    """The batch of a step, with the numbers of its requests on the host."""

    whole: CommonAttentionMetadata
    starts: list[int]
    lengths: list[int]
    block_size: int


class PlainBuilder(AttentionMetadataBuilder[Batch]):
    """Copies what the implementation walks through."""

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> Batch:
        """Build the metadata of a step."""
        whole = common_attn_metadata
        starts: list[int] = whole.query_start_loc.tolist()  # type: ignore[no-untyped-call]
        lengths: list[int] = whole.seq_lens.tolist()  # type: ignore[no-untyped-call]
        return Batch(whole, starts, lengths, self.kv_cache_spec.block_size)


class Plain(AttentionImpl[Batch]):
    """Attention request by request; each step of it is a method, so that a mistake is one of them."""

    def check_arguments(self) -> None:
        """Refuse capped scores and position biases."""
        if self.logits_soft_cap:
            raise NotSupported("logits_soft_cap", "CUSTOM", "use a model whose scores are not capped")
        if self.alibi_slopes is not None:
            raise NotSupported("alibi_slopes", "CUSTOM", "use a model without position biases")

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Batch,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store, attend, and write the result."""
        self.store(key, value, kv_cache, attn_metadata)
        result = torch.zeros(query.shape, dtype=query.dtype, device=query.device)
        for request, length in enumerate(attn_metadata.lengths):
            start, end = attn_metadata.starts[request], attn_metadata.starts[request + 1]
            keys, values = self.gather(kv_cache, attn_metadata, request, length)
            rows = self.rows(query, start, end)
            result[start:end] = self.attend(rows, keys, values, length).to(query.dtype)
        return self.finish(result, output)

    def store(self, key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, batch: Batch) -> None:
        """Store the keys and values of the step in `cache`, `[N, B, K, 2 * D]`."""
        slots = self.slots(batch)
        kept = slots >= 0
        both = torch.cat([key, value], dim=-1)[: len(slots)]
        cache.view(-1, *cache.shape[2:])[slots[kept]] = both[kept].to(cache.dtype)

    def slots(self, batch: Batch) -> torch.Tensor:
        """Say where each token is stored."""
        return batch.whole.slot_mapping

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        blocks = self.table(batch, request)[: -(-length // batch.block_size)].long()
        both = cache[blocks].flatten(0, 1)[: self.count(length)].float()
        keys, values = both.split(self.head_size, dim=-1)
        return keys, values

    def table(self, batch: Batch, request: int) -> torch.Tensor:
        """Return the blocks of a request."""
        return batch.whole.block_table[request]

    def count(self, length: int) -> int:
        """Return how many tokens are read of a request."""
        return length

    def rows(self, query: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return the queries of a request."""
        return query[start:end].float()

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        group = self.spread
        scores = torch.einsum("qhd,khd->hqk", rows, group(keys)) * self.factor()
        here = torch.arange(length - len(rows), length).unsqueeze(1)
        seen = self.sees(here, torch.arange(keys.shape[0]).unsqueeze(0))
        weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=-1)
        return torch.einsum("hqk,khd->qhd", weights, group(values))

    def spread(self, of_heads: torch.Tensor) -> torch.Tensor:
        """Give each query head its kv head."""
        return of_heads.repeat_interleave(self.num_queries_per_kv, dim=1)

    def factor(self) -> float:
        """Return the factor of the scores."""
        return self.scale

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        seen = there <= here
        return seen if self.sliding_window is None else seen & (there > here - self.sliding_window)

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over."""
        return result if output is None else output.copy_(result)


class PlainBackend(AttentionBackend):
    """Attention by `Plain`."""

    supported_dtypes: ClassVar[Sequence[str]] = ("float32", "bfloat16", "float16")
    impl: ClassVar[type[AttentionImpl[Any]]] = Plain

    @staticmethod
    def get_name() -> str:
        """Return the name of a backend that only the platform knows."""
        return "CUSTOM"

    @classmethod
    def get_impl_cls(cls) -> type[AttentionImpl[Any]]:
        """Return the implementation."""
        return cls.impl

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the builder."""
        return PlainBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """Return `[N, B, K, 2 * D]`: keys and values of a token side by side."""
        return (num_blocks, block_size, num_kv_heads, 2 * head_size)

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Say yes."""
        return True


# -------------------------------------------------------------------------- unusual, and right


class OtherWay(Plain):
    """Stores keys transposed, in a cache whose blocks do not lie outermost in memory, with decode steps first."""

    def store(self, key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, batch: Batch) -> None:
        """Store the keys and values of the step in `cache`, `[2, N, K, D, B]`."""
        for row, slot in enumerate(batch.whole.slot_mapping.tolist()):  # type: ignore[no-untyped-call]
            if slot >= 0:
                block, offset = divmod(slot, batch.block_size)
                cache[0, block, :, :, offset] = key[row]
                cache[1, block, :, :, offset] = value[row]

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        blocks = self.table(batch, request)[: -(-length // batch.block_size)].long()
        keys, values = (half[blocks].permute(0, 3, 1, 2).flatten(0, 1)[:length].float() for half in cache)
        return keys, values

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over; the backend takes no output."""
        assert output is None
        return result


class OtherBuilder(PlainBuilder):
    """Wants decode steps first, and counts on it."""

    reorder_batch_threshold: ClassVar[int | None] = 1

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> Batch:
        """Build the metadata of a step."""
        batch = super().build(common_prefix_len, common_attn_metadata, fast_build)
        lengths = [end - start for start, end in zip(batch.starts, batch.starts[1:], strict=False)]
        assert lengths == sorted(lengths, key=lambda one: one > 1)
        return batch


class OtherBackend(PlainBackend):
    """Takes no output, blocks of multiples of 32 and 48 tokens, head sizes 32 and 96, no window, and one dtype."""

    supported_dtypes: ClassVar[Sequence[str]] = ("float32",)
    accept_output_buffer: ClassVar[bool] = False
    impl: ClassVar[type[AttentionImpl[Any]]] = OtherWay

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the builder."""
        return OtherBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """Return `[2, N, K, D, B]`."""
        return (2, num_blocks, num_kv_heads, head_size, block_size)

    @staticmethod
    def get_kv_cache_stride_order() -> tuple[int, ...]:
        """Return that heads lie outermost."""
        return (2, 0, 1, 4, 3)

    @staticmethod
    def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
        """Return the two sizes."""
        return (32, 48)

    @classmethod
    def get_supported_head_sizes(cls) -> Sequence[int]:
        """Return the two sizes."""
        return (32, 96)

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Say no."""
        return False
