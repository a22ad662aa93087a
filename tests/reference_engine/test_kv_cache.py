"""Facts about the layout of the KV cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from platform_abc.components.kv_cache import AttentionSpec, DefaultKVCacheConfigBuilder, KVCacheSpec
from platform_abc.config import EngineConfig
from platform_abc.errors import NotSupported
from reference_engine import kv_cache

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"
SPECS: Mapping[str, KVCacheSpec] = {
    f"layers.{index}.attention": AttentionSpec(block_size=16, num_kv_heads=1, head_size=8, dtype="float32")
    for index in range(2)
}


def named(name: str) -> Callable[..., str]:
    return lambda _cls, *_args: name


def test_the_cache_is_laid_out_by_the_platforms_builder_after_its_specs(use_platform: Use) -> None:
    """Custom specs are registered first, then the named builder builds."""
    seen: list[str] = []
    use_platform(
        register_custom_kv_cache_specs=lambda _cls, _config: seen.append("specs"),
        get_kv_cache_config_builder_cls=lambda _cls, _config: (
            seen.append("builder") or f"{COMPONENTS}.FewBlocks"
        ),
    )
    built = kv_cache.make_kv_cache_config(EngineConfig(), SPECS, 1 << 20)
    assert built.num_blocks == 5
    assert seen == ["specs", "builder"]


def test_a_platform_made_before_the_builder_picker_gets_the_default() -> None:
    """The type is asked: an instance with a torch fallback would answer any name."""

    class First:
        def __getattr__(self, name: str) -> str:
            return "nonsense"

    first: Any = First()
    assert kv_cache.builder_class(first, EngineConfig()) is DefaultKVCacheConfigBuilder


def test_several_layers_of_one_index_need_the_platforms_consent(use_platform: Use) -> None:
    """An encoder and a decoder layer of one number share an index."""
    both = {**SPECS, "encoder.layers.1.attention": SPECS["layers.0.attention"]}
    use_platform()
    kv_cache.check_layer_indices(both)

    def declines(_cls: type) -> None:
        raise NotSupported("check_runner_kv_caches_multi_layer", "P", "use another model")

    use_platform(check_runner_kv_caches_multi_layer=declines)
    kv_cache.check_layer_indices(SPECS)
    with pytest.raises(NotSupported):
        kv_cache.check_layer_indices(both)
