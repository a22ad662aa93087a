"""Blocks of the KV cache on the host: what a request that gave its place to another has computed so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from platform_abc.device_like import has_device_v2
from platform_abc.errors import NotSupported
from platform_abc.hooks.calls import named

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheConfig
    from reference_engine.scheduler import Move


class HostBlocks:
    """Memory of the host for some blocks of each layer.

    Args:
        caches: each layer's cache, by name.
        layout: how they are laid out.
        num_blocks: blocks of each group that the host keeps.

    Raises:
        NotSupported: the blocks of a cache are neither its first dimension, nor the second after keys and values.
    """

    def __init__(self, caches: Mapping[str, torch.Tensor], layout: KVCacheConfig, num_blocks: int) -> None:
        self._groups: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
        for group in layout.kv_cache_groups:
            parts = [
                part for name in group.layer_names for part in _by_block(caches[name], layout.num_blocks)
            ]
            self._groups.append(
                [(part, torch.empty((num_blocks, *part.shape[1:]), dtype=part.dtype)) for part in parts]
            )

    def move(self, moves: Sequence[Move]) -> None:
        """Copy blocks, one move after the other.

        Args:
            moves: in the order in which they were planned.
        """
        for one in moves:
            for pairs, parts in zip(one.blocks, self._groups, strict=True):
                if pairs:
                    here, there = torch.tensor(pairs).unbind(1)
                    for part, host in parts:
                        _copy(part, host, here, there, to_host=one.to_host)


def _by_block(cache: torch.Tensor, num_blocks: int) -> list[torch.Tensor]:
    """Return views of a cache whose first dimension is the block."""
    if cache.shape[:1] == (num_blocks,):
        return [cache]
    if cache.shape[:2] == (2, num_blocks):
        return list(cache.unbind(0))
    raise NotSupported(
        f"moving blocks of a KV cache of shape {tuple(cache.shape)}",
        "the engine",
        f"let its first dimension be the {num_blocks} blocks, or leave cache_config.num_cpu_blocks unset",
    )


def _copy(
    part: torch.Tensor, host: torch.Tensor, here: torch.Tensor, there: torch.Tensor, *, to_host: bool
) -> None:
    from platforms import current_platform

    if not has_device_v2(current_platform):
        raise NotSupported(
            "moving blocks of the KV cache",
            type(current_platform).__name__,
            "leave cache_config.num_cpu_blocks unset",
        )
    on_device = here.to(part.device)
    if to_host:
        with named("swap_out_blocks_to_host", current_platform):
            current_platform.swap_out_blocks_to_host(part, host, on_device, there)
        return
    with named("insert_blocks_to_device", current_platform):
        current_platform.insert_blocks_to_device(host, part, there, on_device)
    try:
        current_platform.pack_kv_cache(kv_cache=part, indices=on_device)
    except NotSupported:
        return  # the blocks have the layout that they had before
