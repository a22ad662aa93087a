"""Facts of `platforms.components.paged_sdpa`, against attention written out in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from platforms.components import paged_sdpa

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


class Batch:
    """A ragged batch in a paged cache whose blocks are scattered and whose free slots hold NaN."""

    def __init__(
        self,
        lengths: list[tuple[int, int]],
        *,
        heads: int = 4,
        kv_heads: int = 2,
        size: int = 16,
        block: int = 4,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        dims: tuple[int, ...] | None = None,
    ) -> None:
        """`lengths` holds `(new tokens, tokens in all)` of each request; `dims` is the order of the cache in memory."""
        make = torch.Generator().manual_seed(seed)
        self.lengths, self.heads, self.kv_heads, self.size = lengths, heads, kv_heads, size
        self.scale = 1 / math.sqrt(size)
        blocks = [-(-total // block) for _, total in lengths]
        order = torch.randperm(sum(blocks) + 2, generator=make).tolist()
        self.cache = torch.full(
            paged_sdpa.cache_shape(sum(blocks) + 2, block, kv_heads, size), math.nan, dtype=dtype
        )
        if dims is not None:
            back = [dims.index(dim) for dim in range(5)]
            self.cache = self.cache.permute(dims).contiguous().permute(back)
        # Entries beyond a request's blocks are rubbish on purpose.
        self.table = torch.full((len(lengths), max(blocks, default=0) + 1), 10**6, dtype=torch.int32)
        self.keys, self.values, queries, self.starts = [], [], [], [0]
        for request, (new, total) in enumerate(lengths):
            own = [order.pop() for _ in range(blocks[request])]
            self.table[request, : len(own)] = torch.tensor(own, dtype=torch.int32)
            key = torch.randn(total, kv_heads, size, generator=make).to(dtype)
            value = torch.randn(total, kv_heads, size, generator=make).to(dtype)
            slots = torch.tensor(
                [own[i // block] * block + i % block for i in range(total)], dtype=torch.int64
            )
            paged_sdpa.write_cache(key, value, self.cache, slots, None)
            self.keys.append(key)
            self.values.append(value)
            queries.append(torch.randn(new, heads, size, generator=make).to(dtype))
            self.starts.append(self.starts[-1] + new)
        self.query = torch.cat(queries) if queries else torch.empty(0, heads, size, dtype=dtype)

    def attend(
        self,
        *,
        causal: bool = True,
        window: int | None = None,
        plans: paged_sdpa.Plans | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if out is None:
            out = torch.full_like(self.query, math.nan)
        paged_sdpa.attend(
            self.query,
            self.cache,
            self.table,
            self.starts,
            [total for _, total in self.lengths],
            out,
            scale=self.scale,
            causal=causal,
            window=window,
            plans=plans,
        )
        return out

    def expected(self, *, causal: bool = True, window: int | None = None) -> torch.Tensor:
        """Softmax of the scaled scores, in float64, token by token."""
        out = torch.zeros(self.query.shape, dtype=torch.float64)
        for request, (new, total) in enumerate(self.lengths):
            for i in range(new):
                here = total - new + i
                low = 0 if window is None else max(0, here - window + 1)
                high = here + 1 if causal else total if window is None else min(total, here + window)
                for head in range(self.heads):
                    group = head // (self.heads // self.kv_heads)
                    q = self.query[self.starts[request] + i, head].double()
                    scores = self.keys[request][low:high, group].double() @ q * self.scale
                    out[self.starts[request] + i, head] = (
                        scores.softmax(0) @ self.values[request][low:high, group].double()
                    )
        return out


RAGGED = [(5, 5), (1, 9), (3, 11), (1, 1), (1, 23), (7, 7), (1, 4), (2, 30)]


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("window", [None, 1, 6, 100])
@pytest.mark.parametrize("block", [1, 3, 16])
def test_a_ragged_batch_matches_attention_written_out(
    dtype: torch.dtype, window: int | None, block: int
) -> None:
    """Prefill, chunks and decode in one batch, in every dtype, window and block size."""
    batch = Batch(RAGGED, block=block, dtype=dtype)
    torch.testing.assert_close(
        batch.attend(window=window).double(),
        batch.expected(window=window),
        atol=TOLERANCE[dtype],
        rtol=TOLERANCE[dtype],
    )


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 4), (8, 1), (6, 3)])
def test_query_heads_share_key_heads(heads: int, kv_heads: int) -> None:
    """Multi-head, grouped and multi-query attention."""
    batch = Batch(RAGGED, heads=heads, kv_heads=kv_heads)
    torch.testing.assert_close(batch.attend().double(), batch.expected(), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("window", [None, 3])
def test_without_causality_later_tokens_are_seen(window: int | None) -> None:
    """Bidirectional attention sees all, or the window on both sides."""
    batch = Batch([(5, 5), (4, 9)])
    result = batch.attend(causal=False, window=window).double()
    torch.testing.assert_close(result, batch.expected(causal=False, window=window), atol=2e-5, rtol=2e-5)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(
        st.integers(1, 20).flatmap(lambda total: st.tuples(st.integers(1, total), st.just(total))),
        min_size=1,
        max_size=5,
    ),
    block=st.integers(1, 8),
    window=st.none() | st.integers(1, 25),
    heads=st.sampled_from([(2, 2), (4, 2), (3, 1)]),
    seed=st.integers(0, 1000),
)
def test_any_batch_matches_attention_written_out(
    lengths: list[tuple[int, int]], block: int, window: int | None, heads: tuple[int, int], seed: int
) -> None:
    """Whatever the lengths, blocks, window and heads."""
    batch = Batch(lengths, heads=heads[0], kv_heads=heads[1], size=8, block=block, seed=seed)
    torch.testing.assert_close(
        batch.attend(window=window).double(), batch.expected(window=window), atol=3e-5, rtol=3e-5
    )


def test_a_padding_request_gets_zeros() -> None:
    """A request without tokens has a defined output."""
    batch = Batch([(1, 3), (1, 2)])
    out = torch.full_like(batch.query, math.nan)
    paged_sdpa.attend(batch.query, batch.cache, batch.table, batch.starts, [3, 0], out, scale=batch.scale)
    assert torch.equal(out[1], torch.zeros_like(out[1]))
    torch.testing.assert_close(out[0].double(), batch.expected()[0], atol=2e-5, rtol=2e-5)


def test_long_decodes_are_cut_into_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any room for gathered keys the result is the same."""
    batch = Batch([(1, 9), (1, 30), (1, 2), (1, 31)])
    whole = batch.attend()
    monkeypatch.setattr(paged_sdpa, "_HOST_BYTES", 1)
    torch.testing.assert_close(batch.attend(), whole)


def test_negative_slots_write_nothing() -> None:
    """Padding tokens leave the cache as it is."""
    cache = torch.zeros(paged_sdpa.cache_shape(2, 2, 1, 1))
    key = torch.tensor([[[1.0]], [[2.0]], [[3.0]]])
    paged_sdpa.write_cache(key, key * 10, cache, *paged_sdpa.written_slots(torch.tensor([3, -1])))
    assert cache[paged_sdpa.KEY].flatten().tolist() == [0, 0, 0, 1]
    assert cache[paged_sdpa.VALUE].flatten().tolist() == [0, 0, 0, 10]


def test_a_cache_of_another_dtype_converts() -> None:
    """Keys of a float32 model can be kept in bfloat16."""
    batch = Batch([(1, 6), (3, 3)])
    batch.cache = batch.cache.bfloat16()
    torch.testing.assert_close(batch.attend().double(), batch.expected(), atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("window", [1, 3, 6])
@pytest.mark.parametrize("block", [1, 3, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_blocks_that_left_the_window_are_not_read(window: int, block: int, causal: bool) -> None:
    """An engine takes them back: their entries may be rubbish, and what they held NaN."""
    batch = Batch(RAGGED, block=block)
    expected = batch.expected(window=window, causal=causal)
    for request, (new, total) in enumerate(batch.lengths):
        gone = max(0, total - new - window + 1) // block
        batch.cache[:, batch.table[request, :gone].long()] = math.nan
        batch.table[request, :gone] = -(10**6)
    result = batch.attend(window=window, causal=causal).double()
    torch.testing.assert_close(result, expected, atol=2e-5, rtol=2e-5)


def test_strided_tensors_are_read_and_filled() -> None:
    """Queries cut out of a fused projection, and an output that is a view of a larger buffer."""
    batch = Batch(RAGGED, size=5)
    expected = batch.expected()
    fused = torch.full((batch.query.shape[0], 7, 5), math.nan)
    fused[:, 2:6] = batch.query
    buffer = torch.full((4, batch.query.shape[0], 10), math.nan)
    out = buffer.transpose(0, 1)[..., ::2]
    paged_sdpa.attend(
        fused[:, 2:6],
        batch.cache,
        batch.table,
        batch.starts,
        [total for _, total in batch.lengths],
        out,
        scale=batch.scale,
    )
    torch.testing.assert_close(out.double(), expected, atol=2e-5, rtol=2e-5)
    assert buffer[..., 1::2].isnan().all()


def test_an_empty_batch_and_a_request_without_new_tokens_do_nothing() -> None:
    """Nothing is computed where there is nothing to attend from."""
    assert Batch([]).attend().shape == (0, 4, 16)
    batch = Batch([(0, 5), (2, 6), (0, 1)])
    torch.testing.assert_close(batch.attend().double(), batch.expected(), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("lengths", [[(1, 9), (1, 9)], [(1, 3), (2, 5), (1, 12)]])
def test_the_layers_of_a_step_share_its_plan_but_not_their_keys(lengths: list[tuple[int, int]]) -> None:
    """A second layer with a cache of its own, of the same shape, computes its own attention."""
    plans, batch = paged_sdpa.Plans(), Batch(lengths)
    for _ in range(2):
        result = batch.attend(plans=plans)
        torch.testing.assert_close(result.double(), batch.expected(), atol=2e-5, rtol=2e-5)
        batch.cache[paged_sdpa.VALUE] *= 2
        batch.values = [2 * value for value in batch.values]
    assert len(plans.groups) == 1
    batch.attend(plans=plans, window=2)
    assert len(plans.groups) == 2


@pytest.mark.parametrize("dims", [(0, 1, 3, 2, 4), (1, 0, 2, 3, 4), (2, 4, 3, 0, 1)])
def test_tensors_may_lie_in_memory_in_any_order(dims: tuple[int, ...]) -> None:
    """Cache, queries and output with other strides give the same, reading and writing."""
    plain = Batch(RAGGED)
    batch = Batch(RAGGED, dims=dims)
    assert not batch.cache.is_contiguous()
    batch.query = batch.query.transpose(0, 2).contiguous().transpose(0, 2)
    wide = torch.full((batch.query.shape[0], 4, 40), math.nan)
    out = batch.attend(out=wide[:, :, 7:23])
    torch.testing.assert_close(out, plain.attend(), atol=1e-6, rtol=1e-6)
    assert wide[:, :, :7].isnan().all()
    assert wide[:, :, 23:].isnan().all()


def test_a_batch_of_equal_lengths_costs_few_calls_for_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight requests that decode are one call of attention, and later layers plan nothing."""
    calls = 0
    real = paged_sdpa.scaled_dot_product_attention

    def counted(*args: Any, **options: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return real(*args, **options)

    monkeypatch.setattr(paged_sdpa, "scaled_dot_product_attention", counted)
    batch, plans = Batch([(1, 11)] * 8), paged_sdpa.Plans()
    batch.attend(plans=plans)
    assert calls == 1
    monkeypatch.setattr(paged_sdpa, "_groups", None)
    batch.attend(plans=plans)
    assert calls == 2
