"""Attention implementations with one mistake each, as kernels make them."""

from __future__ import annotations

import math
from typing import Any

import torch

from platform_abc.components.attention import AttentionLayer, CommonAttentionMetadata
from tests.mutants.attention_parts import Batch, Plain, PlainBackend, PlainBuilder


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


def _backend(impl: type[Plain]) -> type[PlainBackend]:
    """Make the backend of an implementation."""
    facts: dict[str, Any] = {"impl": impl, "__module__": __name__, "__doc__": impl.__doc__}
    if impl is PrefixTwice:
        facts["get_builder_cls"] = staticmethod(lambda: PrefixBuilder)
    return type(f"{impl.__name__}Backend", (PlainBackend,), facts)


for _impl in Plain.__subclasses__():
    if _impl.__module__ == __name__:
        globals()[f"{_impl.__name__}Backend"] = _backend(_impl)
