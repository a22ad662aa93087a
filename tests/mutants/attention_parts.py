"""An attention backend of the zoo's own, written plainly, and one for each mistake that kernels make."""

from __future__ import annotations

import math
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


# ----------------------------------------------------------------------------------- mistakes


class SeesNext(Plain):
    """Its mask lets a token see the one after it."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        return there <= here + 1


class NoMask(Plain):
    """It has no causal mask in a prefill."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        return (there >= 0) & (here >= 0)


class NotItself(Plain):
    """A token does not see itself."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        return (there < here) | ((here == 0) & (there == 0))


class TopLeft(Plain):
    """The mask of a chunk counts from the start of the request."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        return there <= (here - here[0] if len(here) > 1 else here)


class ScaleTwice(Plain):
    """It scales the scores twice."""

    def factor(self) -> float:
        """Return the factor of the scores."""
        return self.scale * self.scale


class NoScale(Plain):
    """It does not scale."""

    def factor(self) -> float:
        """Return the factor of the scores."""
        return 1.0


class OwnScale(Plain):
    """It takes the usual scale instead of the one that it was made with."""

    def factor(self) -> float:
        """Return the factor of the scores."""
        return float(self.head_size**-0.5)


class BaseTwo(Plain):
    """Its softmax is one of powers of 2."""

    def factor(self) -> float:
        """Return the factor of the scores."""
        return self.scale * math.log(2)


class HeadsInterleaved(Plain):
    """Query head h uses kv head h % kv heads."""

    def spread(self, of_heads: torch.Tensor) -> torch.Tensor:
        """Give each query head its kv head."""
        return of_heads.repeat(1, self.num_queries_per_kv, 1)


class HeadsFirstOnly(Plain):
    """All query heads use the first kv head."""

    def spread(self, of_heads: torch.Tensor) -> torch.Tensor:
        """Give each query head its kv head."""
        return of_heads[:, :1].expand(-1, self.num_heads, -1)


class WindowWide(Plain):
    """A window has one token too many."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        seen = there <= here
        return seen if self.sliding_window is None else seen & (there >= here - self.sliding_window)


class WindowIgnored(Plain):
    """A window is not looked at."""

    def sees(self, here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Say which token sees which."""
        return there <= here


class HistoryIgnored(Plain):
    """A decode step sees its own token only."""

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        if len(rows) == 1:
            keys, values, length = keys[-1:], values[-1:], 1
        return super().attend(rows, keys, values, length)


class OneBeyond(Plain):
    """A decode step reads one slot too many."""

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        return super().attend(rows, keys, values, length if len(rows) > 1 or length == 1 else keys.shape[0])

    def count(self, length: int) -> int:
        """Return how many tokens are read of a request."""
        return length + 1 if length > 1 else length


class ReadsBeforeStoring(Plain):
    """A decode step reads the cache before it stores the new token."""

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
        decoding = attn_metadata.lengths[0] > 1 and len(query) == len(attn_metadata.lengths)
        before = kv_cache.clone()
        result = super().forward(layer, query, key, value, kv_cache, attn_metadata, output)
        if decoding:
            now = kv_cache.clone()
            self.store = lambda *args: None  # type: ignore[method-assign]  # the fault: the old content is read
            result = super().forward(layer, query, key, value, before, attn_metadata, output)
            del self.store
            kv_cache.copy_(now)
        return result


class TableSorted(Plain):
    """It reads blocks in the order of their numbers."""

    def table(self, batch: Batch, request: int) -> torch.Tensor:
        """Return the blocks of a request."""
        used = -(-batch.lengths[request] // batch.block_size)
        return batch.whole.block_table[request][:used].sort().values


class TableContiguous(Plain):
    """It reads the blocks behind a request's first one."""

    def table(self, batch: Batch, request: int) -> torch.Tensor:
        """Return the blocks of a request."""
        row = batch.whole.block_table[request]
        last = int(batch.whole.block_table.max())
        return (row[0] + torch.arange(len(row))).clamp(max=last)


class LastBlockLeftOut(Plain):
    """It reads whole blocks only, where there is one."""

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        whole = length // 16 * 16
        if len(rows) == 1 and whole:
            keys, values = keys[:whole], values[:whole]
        return super().attend(rows, keys, values, length)


class FirstRowOfTable(Plain):
    """All requests of a batch read the blocks of the first one."""

    def table(self, batch: Batch, request: int) -> torch.Tensor:
        """Return the blocks of a request."""
        return batch.whole.block_table[0 if len(batch.lengths) > 1 else request]


class RowsMixed(Plain):
    """A large batch comes out shifted by one request."""

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over."""
        if len(result) == 20:
            result = result.roll(1, dims=0)
        return super().finish(result, output)


class PrefixTwice(Plain):
    """An announced common prefix is attended to twice."""

    common = 0

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        if self.common:
            keys, values = (torch.cat([one[: self.common], one]) for one in (keys, values))
            length += self.common
        return super().attend(rows, keys, values, length)


class PrefixBuilder(PlainBuilder):
    """Tells the implementation of a common prefix."""

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> Batch:
        """Build the metadata of a step."""
        PrefixTwice.common = common_prefix_len
        return super().build(common_prefix_len, common_attn_metadata, fast_build)


class MasksWeightsOnly(Plain):
    """It reads whole blocks, and masks the weights of what is not there, but not the values."""

    def count(self, length: int) -> int:
        """Return how many tokens are read of a request."""
        return length + 1000

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        return super().attend(rows, keys.nan_to_num(), values, length)


class KeepsBlocks(Plain):
    """It keeps the blocks that are full, and does not look at them again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kept: dict[int, torch.Tensor] = {}

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        blocks: list[int] = self.table(batch, request)[: -(-length // batch.block_size)].tolist()  # type: ignore[no-untyped-call]
        for block in blocks[: length // batch.block_size]:
            self.kept.setdefault(block, cache[block].clone())
        both = torch.cat([self.kept.get(block, cache[block]) for block in blocks])[:length].float()
        keys, values = both.split(self.head_size, dim=-1)
        return keys, values


class IgnoresStride(Plain):
    """It reads queries as if their rows lay one behind the other."""

    def rows(self, query: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return the queries of a request."""
        wide = query.shape[1] * query.shape[2]
        packed = query.as_strided(query.shape, (wide, query.shape[2], 1))
        return packed[start:end].float()


class RefusesStride(Plain):
    """It views queries in a shape that only contiguous ones have."""

    def rows(self, query: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return the queries of a request."""
        return query.view(-1).view(query.shape)[start:end].float()


class OutputKept(Plain):
    """It leaves the output that it is given as it is."""

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over."""
        return result if output is None else output


class OutputReplaced(Plain):
    """It returns a tensor of its own where an output is given."""

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over."""
        return result


class OutputHalf(Plain):
    """It writes the first half of the heads only into the output that it is given."""

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over."""
        if output is None:
            return result
        half = result.shape[1] // 2
        output[:, :half] = result[:, :half]
        return output


class StoresNextBlock(Plain):
    """It stores a token in the block behind its own."""

    def slots(self, batch: Batch) -> torch.Tensor:
        """Say where each token is stored."""
        slots = batch.whole.slot_mapping
        return torch.where(slots >= 0, slots + batch.block_size, slots)


class StoresOneFurther(Plain):
    """It stores a token in the slot behind its own, and reads it there."""

    def slots(self, batch: Batch) -> torch.Tensor:
        """Say where each token is stored."""
        slots = batch.whole.slot_mapping
        return torch.where(slots >= 0, slots + 1, slots)

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        return super().gather(
            cache.view(-1, *cache.shape[2:]).roll(-1, 0).view(cache.shape), batch, request, length
        )


class StoresNothing(Plain):
    """It keeps keys and values in memory of its own."""

    own: torch.Tensor | None = None

    def store(self, key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, batch: Batch) -> None:
        """Store the keys and values of the step."""
        self.own = cache.clone() if self.own is None else self.own
        super().store(key, value, self.own, batch)

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        assert self.own is not None
        return super().gather(self.own, batch, request, length)


class StoresPadding(Plain):
    """It stores padding too: as an index, -1 is the last slot."""

    def store(self, key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, batch: Batch) -> None:
        """Store the keys and values of the step."""
        both = torch.cat([key, value], dim=-1)
        cache.view(-1, *cache.shape[2:])[self.slots(batch)] = both.to(cache.dtype)


class RaisesOnDecode(Plain):
    """It was never run with a step of one token."""

    def rows(self, query: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return the queries of a request."""
        if end - start == 1 and start == 0 and len(query) == 1:
            raise IndexError("list index out of range")
        return query[start:end].float()


class WrongDtype(Plain):
    """It returns float64."""

    def finish(self, result: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
        """Hand the result over."""
        return result.double()


class SmallGroups(Plain):
    """It computes with groups of at most four query heads."""

    def spread(self, of_heads: torch.Tensor) -> torch.Tensor:
        """Give each query head its kv head."""
        group = min(self.num_queries_per_kv, 4)
        spread = of_heads.repeat_interleave(group, dim=1)
        return torch.cat([spread, *[spread] * (self.num_heads // spread.shape[1] - 1)], dim=1)


class PowersOfTwo(Plain):
    """It computes with the largest power of 2 within the head size."""

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        size = 1 << (self.head_size.bit_length() - 1)
        rows = torch.cat([rows[..., :size], torch.zeros_like(rows[..., size:])], dim=-1)
        return super().attend(rows, keys, values, length)


class LargeBlocks(Plain):
    """It reads at most 64 tokens of a block."""

    def attend(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int
    ) -> torch.Tensor:
        """Attend from the new tokens of one request."""
        if self.blocks > 64 and len(rows) == 1:
            keys, values = keys.clone(), values.clone()
            keys[64:], values[64:] = 0, 0
        return super().attend(rows, keys, values, length)

    blocks = 16

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        self.blocks = batch.block_size
        return super().gather(cache, batch, request, length)


class HalfOverflows(Plain):
    """In float16 its scores are not scaled."""

    half = False

    def rows(self, query: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """Return the queries of a request."""
        self.half = query.dtype is torch.float16
        return query[start:end].float()

    def factor(self) -> float:
        """Return the factor of the scores."""
        return 1.0 if self.half else self.scale


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


def _backend(impl: type[Plain]) -> type[PlainBackend]:
    """Make the backend of an implementation."""
    facts: dict[str, Any] = {"impl": impl, "__module__": __name__, "__doc__": impl.__doc__}
    if impl is PrefixTwice:
        facts["get_builder_cls"] = staticmethod(lambda: PrefixBuilder)
    return type(f"{impl.__name__}Backend", (PlainBackend,), facts)


for _impl in Plain.__subclasses__():
    if _impl is not OtherWay:
        globals()[f"{_impl.__name__}Backend"] = _backend(_impl)
