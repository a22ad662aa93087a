"""Facts about blocks on the host: what comes back is what went, and tokens do not tell the difference."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from platform_abc.components.kv_cache import AttentionSpec, KVCacheConfig, KVCacheGroup
from platform_abc.errors import NotSupported
from platform_abc.requests import SamplingParams
from platforms.cpu import CpuPlatform
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from reference_engine.host_blocks import HostBlocks
from reference_engine.scheduler import Move

Use = Callable[..., Any]


@pytest.fixture(autouse=True)
def _kernels_again() -> Iterator[None]:
    """Let each engine of this process import its custom ops, as the first one of a process does."""
    sys.modules.pop("reference_model.custom_ops", None)
    yield


def layout(*names: str) -> KVCacheConfig:
    spec = AttentionSpec(block_size=2, num_kv_heads=1, head_size=4, dtype="float32")
    groups = [KVCacheGroup(layer_names=[name], kv_cache_spec=spec) for name in names]
    return KVCacheConfig(num_blocks=5, kv_cache_tensors=(), kv_cache_groups=groups)


def test_blocks_go_and_come_back_to_other_places(use_platform: Use) -> None:
    """Keys and values, group by group, in the order of the moves; the others stay as they are."""
    use_platform()
    caches = {"a": torch.randn(2, 5, 2, 1, 4), "b": torch.randn(5, 8)}
    before = {name: cache.clone() for name, cache in caches.items()}
    host = HostBlocks(caches, layout("a", "b"), num_blocks=2)
    host.move([Move(True, [[(1, 0), (3, 1)], [(4, 1)]])])
    for cache in caches.values():
        cache.zero_()
    host.move([Move(False, [[(0, 0), (2, 1)], [(3, 1)]]), Move(True, [[], []])])
    assert torch.equal(caches["a"][:, 0], before["a"][:, 1])
    assert torch.equal(caches["a"][:, 2], before["a"][:, 3])
    assert torch.equal(caches["b"][3], before["b"][4])
    assert not caches["a"][:, [1, 3, 4]].any()
    assert not caches["b"][[0, 1, 2, 4]].any()


def test_a_platform_packs_what_came_back(use_platform: Use) -> None:
    """Blocks that came back, and by keyword; most platforms have nothing to pack."""
    packed: list[list[int]] = []
    use_platform(pack_kv_cache=lambda _cls, kv_cache, indices: packed.append(indices.tolist()))
    host = HostBlocks({"b": torch.zeros(5, 8)}, layout("b"), num_blocks=1)
    host.move([Move(True, [[(4, 0)]]), Move(False, [[(2, 0)]])])
    assert packed == [[2]]


def test_a_cache_without_blocks_to_be_seen_is_refused() -> None:
    """Its shape is in the message, and what to do."""
    with pytest.raises(NotSupported, match=r"\(3, 5\).*num_cpu_blocks"):
        HostBlocks({"a": torch.zeros(3, 5)}, layout("a"), num_blocks=1)


def test_tokens_are_the_same_whether_moved_or_computed_again(use_platform: Use) -> None:
    """Three requests outgrow a small cache; blocks really move, and not without room for them."""
    moved: list[str] = []

    def out(_cls: type, *args: Any) -> None:
        moved.append("out")
        CpuPlatform.swap_out_blocks_to_host(*args)

    def back(_cls: type, *args: Any) -> None:
        moved.append("in")
        CpuPlatform.insert_blocks_to_device(*args)

    use_platform(swap_out_blocks_to_host=out, insert_blocks_to_device=back)

    def generate(**args: Any) -> list[tuple[int, ...]]:
        prompts = [[i] * 10 for i in (1, 2, 3)]
        with Engine(EngineArgs(dtype="float32", block_size=16, **args)) as engine:
            return [tuple(one.tokens) for one in engine.generate(prompts, SamplingParams(max_tokens=40))]

    roomy = generate()
    assert generate(num_gpu_blocks_override=5) == roomy
    assert moved == []
    assert generate(num_gpu_blocks_override=5, num_cpu_blocks=8) == roomy
    assert moved.count("out") == moved.count("in") > 0
