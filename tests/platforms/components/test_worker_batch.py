"""Facts about the batch of a step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from platform_abc.components.attention import CommonAttentionMetadata
from platform_abc.components.worker import StepRequest
from platforms.components.worker_batch import CacheOfLayers, LayersAlike, make_batch, memory_order

CPU = torch.device("cpu")


def cache(*sizes: int) -> CacheOfLayers:
    """A cache of one layer a group, whose builders give back the batch."""
    builder: Any = SimpleNamespace(build=lambda _prefix, batch: batch)
    groups = [LayersAlike(number, size, [f"layer.{number}"], builder) for number, size in enumerate(sizes)]
    return CacheOfLayers(num_blocks=10, by_layer={}, groups=groups)


def test_requests_follow_each_other_and_their_slots_follow_their_blocks() -> None:
    """Tokens, positions, lengths, tables and slots of a ragged batch; the last token of each."""
    requests = [
        StepRequest(request_id="a", token_ids=[5, 6, 7], num_computed_tokens=2, block_ids=[4, 1, 3]),
        StepRequest(request_id="b", token_ids=[9], block_ids=[2]),
    ]
    ids, positions, metadata, last = make_batch(requests, cache(2), CPU)
    batch: Any = metadata["layer.0"]
    assert isinstance(batch, CommonAttentionMetadata)
    assert ids.tolist() == [5, 6, 7, 9]
    assert positions.tolist() == [2, 3, 4, 0]
    assert last == [2, 3]
    assert batch.query_start_loc.tolist() == [0, 3, 4]
    assert batch.seq_lens.tolist() == [5, 1]
    assert batch.block_table.tolist() == [[4, 1, 3], [2, 0, 0]]
    assert batch.slot_mapping.tolist() == [2, 3, 6, 4]
    assert (batch.num_reqs, batch.num_actual_tokens, batch.max_query_len, batch.max_seq_len) == (2, 4, 3, 5)


def test_each_group_of_layers_has_its_own_blocks() -> None:
    """Where a request names them by group; else all groups share its blocks, and a batch where sizes agree."""
    one = StepRequest(request_id="a", token_ids=[1, 2, 3], block_ids=[4, 5], group_block_ids=[[4, 5], [7]])
    found: Any = make_batch([one], cache(2, 8), CPU)[2]
    assert found["layer.0"].slot_mapping.tolist() == [8, 9, 10]
    assert found["layer.1"].slot_mapping.tolist() == [56, 57, 58]
    shared: Any = make_batch(
        [StepRequest(request_id="a", token_ids=[1], block_ids=[4])], cache(2, 2, 8), CPU
    )[2]
    assert shared["layer.0"] is shared["layer.1"]
    assert shared["layer.2"].slot_mapping.tolist() == [32]
    with pytest.raises(ValueError, match="blocks of 2 cache groups, expected some of group 2"):
        make_batch([one], cache(2, 8, 8), CPU)


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [((None, None), "abcd"), ((2, None), "bdac"), ((3, 1), "bacd"), ((9,), "abcd")],
)
def test_short_requests_come_first_where_a_builder_wants_it(
    thresholds: tuple[int | None, ...], expected: str
) -> None:
    """By the smallest threshold; otherwise the order is that of the batch."""
    groups = [
        LayersAlike(number, 16, [f"layer.{number}"], SimpleNamespace(reorder_batch_threshold=one))  # type: ignore[arg-type]
        for number, one in enumerate(thresholds)
    ]
    lengths = {"a": 5, "b": 1, "c": 3, "d": 2}
    requests = [
        StepRequest(request_id=name, token_ids=range(length), block_ids=[0])
        for name, length in lengths.items()
    ]
    found = CacheOfLayers(num_blocks=1, by_layer={}, groups=groups).ordered(requests)
    assert "".join(one.request_id for one in found) == expected


def test_a_cache_lies_in_memory_in_the_order_of_its_backend() -> None:
    """In the order of the shape where the backend names none; an order that fits no shape is refused."""

    def ordering(answer: Any) -> Any:
        return type("Backend", (), {"get_kv_cache_stride_order": staticmethod(answer)})

    def none() -> tuple[int, ...]:
        raise NotImplementedError

    assert memory_order(ordering(none), (2, 8, 4)) == [0, 1, 2]
    assert memory_order(ordering(lambda: (1, 0, 2)), (2, 8, 4)) == [1, 0, 2]
    with pytest.raises(ValueError, match=r"of Backend answered \(0, 0, 2\); expected each dimension"):
        memory_order(ordering(lambda: (0, 0, 2)), (2, 8, 4))
