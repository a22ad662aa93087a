"""The layout of the KV cache: the platform's own specs and its builder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from platform_abc.components.kv_cache import DefaultKVCacheConfigBuilder, KVCacheConfigBuilder
from platform_abc.hooks.calls import named, observed
from platform_abc.picked import resolve_picked
from platform_abc.pickers import has_pickers_v2

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheConfig, KVCacheSpec
    from platform_abc.config import EngineConfig
    from platform_abc.pickers import PickersLike

_INDEX = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


def make_kv_cache_config(
    config: EngineConfig,
    specs: Mapping[str, KVCacheSpec],
    available_bytes: int,
) -> KVCacheConfig:
    """Lay out the cache, in the engine core.

    Args:
        config: the engine's configuration.
        specs: what each layer stores, by layer name.
        available_bytes: memory that the cache may take.

    Raises:
        ValueError: the memory is too small, or the platform names no builder.
        NotSupported: several layers have one index and the platform cannot bind their caches.
    """
    from platforms import current_platform

    with observed("register_custom_kv_cache_specs", current_platform, config):
        current_platform.register_custom_kv_cache_specs(config)
    check_layer_indices(specs)
    return builder_class(current_platform, config)(config).build(specs, available_bytes)


def builder_class(
    platform: PickersLike[Any, Any, Any, Any, Any], config: EngineConfig
) -> Callable[[EngineConfig], KVCacheConfigBuilder]:
    """Return the builder that the platform names; the default for one made before there was this picker.

    Args:
        platform: asked, if its type has the picker: every name is answered by the torch fallback.
        config: the engine's configuration.

    Raises:
        ValueError: what it names is no builder.
    """
    if not has_pickers_v2(platform):
        return DefaultKVCacheConfigBuilder
    with named("get_kv_cache_config_builder_cls", platform):
        picked = platform.get_kv_cache_config_builder_cls(config)
    return resolve_picked("get_kv_cache_config_builder_cls", picked, KVCacheConfigBuilder, platform)


def check_layer_indices(specs: Mapping[str, KVCacheSpec]) -> None:
    """Ask the platform whether it copes, where several layers have one index (encoder and decoder).

    Args:
        specs: what each layer stores, by layer name such as `layers.3.attn`.

    Raises:
        NotSupported: it does not.
    """
    from platforms import current_platform

    indices = Counter(found.group(1) for name in specs if (found := _INDEX.search(name)))
    if any(count > 1 for count in indices.values()):
        current_platform.check_runner_kv_caches_multi_layer()
