"""The batch of a step: the requests as tensors, and the metadata of each group of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from platform_abc.components.attention import (
    AttentionLayerBase,
    AttentionMetadata,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
)

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionBackend
    from platform_abc.components.kv_cache import KVCacheConfig
    from platform_abc.components.worker import StepRequest
    from platform_abc.config import EngineConfig


@attrs.frozen
class LayersAlike:
    """Layers that store the same and attend in the same way, and what builds their metadata.

    Args:
        group: number of the cache group that they belong to.
        block_size: tokens of a block.
        layer_names: the layers.
        builder: their backend's.
    """

    group: int
    block_size: int
    layer_names: Sequence[str]
    builder: AttentionMetadataBuilder[Any]


@attrs.frozen(kw_only=True, eq=False)
class CacheOfLayers:
    """An allocated cache.

    Args:
        num_blocks: blocks of each layer.
        by_layer: each layer's memory, by its name.
        groups: the layers by what they store.
    """

    num_blocks: int
    by_layer: Mapping[str, torch.Tensor]
    groups: Sequence[LayersAlike]

    @classmethod
    def of(
        cls,
        layout: KVCacheConfig,
        by_layer: Mapping[str, torch.Tensor],
        layers: Mapping[str, AttentionLayerBase],
        config: EngineConfig,
        device: torch.device,
    ) -> CacheOfLayers:
        """Make the builders of a cache, once for all steps.

        Args:
            layout: of the cache.
            by_layer: its memory.
            layers: of the model.
            config: the engine's configuration.
            device: where tensors go.
        """
        groups: list[LayersAlike] = []
        for number, group in enumerate(layout.kv_cache_groups):
            alike: dict[Any, list[str]] = {}
            for name in group.layer_names:
                alike.setdefault(layers[name].get_attn_backend(), []).append(name)
            for backend, names in alike.items():
                builder = backend.get_builder_cls()(group.kv_cache_spec, names, config, device)
                groups.append(LayersAlike(number, group.kv_cache_spec.block_size, names, builder))
        return cls(num_blocks=layout.num_blocks, by_layer=by_layer, groups=groups)

    def ordered(self, requests: Sequence[StepRequest]) -> Sequence[StepRequest]:
        """Return the requests of a step in the order that the builders want, otherwise as they came.

        Builders that name a `reorder_batch_threshold` find the requests with at most so many tokens first; of
        several thresholds the smallest counts.

        Args:
            requests: the batch.
        """
        named = [group.builder.reorder_batch_threshold for group in self.groups]
        thresholds = [one for one in named if one is not None]
        if not thresholds:
            return requests
        return sorted(requests, key=lambda request: len(request.token_ids) > min(thresholds))


def memory_order(backend: type[AttentionBackend], shape: Sequence[int]) -> list[int]:
    """Return in which order the dimensions of a cache lie in memory, outermost first.

    Args:
        backend: whose cache it is.
        shape: of one layer's cache.

    Raises:
        ValueError: the backend's order does not name each dimension once.
    """
    try:
        order = list(backend.get_kv_cache_stride_order())
    except NotImplementedError:
        return list(range(len(shape)))
    if sorted(order) != list(range(len(shape))):
        raise ValueError(
            f"get_kv_cache_stride_order of {backend.__name__} answered {tuple(order)}; expected each dimension of the "
            f"shape {tuple(shape)} once, 0 to {len(shape) - 1}"
        )
    return order


def make_batch(
    requests: Sequence[StepRequest], cache: CacheOfLayers, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, dict[str, AttentionMetadata], list[int]]:
    """Turn the requests of a step into what a model takes.

    Args:
        requests: the batch, ragged.
        cache: of the worker.
        device: where tensors go.

    Returns:
        Token ids and positions, int64 `[T]`; metadata by layer name; the last token of each request.

    Raises:
        ValueError: a request has no tokens, too few blocks, or a block that does not exist.
    """
    ids: list[int] = []
    positions: list[int] = []
    starts = [0]
    for request in requests:
        if not request.token_ids or request.num_computed_tokens < 0:
            raise ValueError(f"request {request.request_id!r} has no tokens in this step, or a negative past")
        ids += request.token_ids
        positions += range(request.num_computed_tokens, request.num_computed_tokens + len(request.token_ids))
        starts.append(len(ids))
    # Where a request has the same blocks in all groups, groups with blocks of one size share a batch.
    shared = not any(request.group_block_ids for request in requests)
    batches: dict[tuple[int, int], CommonAttentionMetadata] = {}
    metadata: dict[str, AttentionMetadata] = {}
    for group in cache.groups:
        what = (group.block_size, 0 if shared else group.group)
        if what not in batches:
            blocks = [_blocks_of(request, group.group) for request in requests]
            batches[what] = _common_metadata(
                requests, blocks, starts, group.block_size, cache.num_blocks, device
            )
        built: AttentionMetadata = group.builder.build(0, batches[what])
        metadata.update(dict.fromkeys(group.layer_names, built))
    last = [start - 1 for start in starts[1:]]
    return torch.tensor(ids, device=device), torch.tensor(positions, device=device), metadata, last


def _blocks_of(request: StepRequest, group: int) -> Sequence[int]:
    if not request.group_block_ids:
        return request.block_ids
    if group >= len(request.group_block_ids):
        raise ValueError(
            f"request {request.request_id!r} has blocks of {len(request.group_block_ids)} cache groups, "
            f"expected some of group {group} too"
        )
    return request.group_block_ids[group]


def _common_metadata(
    requests: Sequence[StepRequest],
    blocks_of: Sequence[Sequence[int]],
    starts: Sequence[int],
    block_size: int,
    num_blocks: int,
    device: torch.device,
) -> CommonAttentionMetadata:
    """Turn the blocks of a step's requests into tensors.

    Raises:
        ValueError: a request has too few blocks, or a block that does not exist.
    """
    lengths, slots = list[int](), list[int]()
    for request, blocks in zip(requests, blocks_of, strict=True):
        total = request.num_computed_tokens + len(request.token_ids)
        if len(blocks) * block_size < total:
            raise ValueError(
                f"request {request.request_id!r} has {len(blocks)} blocks of {block_size} tokens, too few for {total}"
            )
        if min(blocks) < 0 or max(blocks) >= num_blocks:
            raise ValueError(
                f"request {request.request_id!r} has blocks {list(blocks)}; expected 0 to {num_blocks - 1}"
            )
        lengths.append(total)
        slots += [
            blocks[i // block_size] * block_size + i % block_size
            for i in range(request.num_computed_tokens, total)
        ]
    widest = max(map(len, blocks_of))
    table = [[*blocks, *[0] * (widest - len(blocks))] for blocks in blocks_of]
    return CommonAttentionMetadata(
        query_start_loc=torch.tensor(starts, dtype=torch.int32, device=device),
        seq_lens=torch.tensor(lengths, dtype=torch.int32, device=device),
        block_table=torch.tensor(table, dtype=torch.int32, device=device),
        slot_mapping=torch.tensor(slots, dtype=torch.int64, device=device),
        num_reqs=len(requests),
        num_actual_tokens=starts[-1],
        max_query_len=max(len(request.token_ids) for request in requests),
        max_seq_len=max(lengths),
    )
