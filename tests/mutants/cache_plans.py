"""Platforms whose planner of the KV cache gives layers what is not there, and one whose planner is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from platform_abc.components.kv_cache import (
    DefaultKVCacheConfigBuilder,
    KVCacheConfig,
    KVCacheGroup,
    KVCacheSpec,
    KVCacheTensor,
)
from tests.mutants.good import Good

HERE: Final = "tests.mutants.cache_plans"


class GroupsApart(DefaultKVCacheConfigBuilder):
    """Gives each layer a group of its own, and leaves some memory."""

    def build(self, specs: Mapping[str, KVCacheSpec], available_bytes: int) -> KVCacheConfig:
        """Lay out the cache of one worker."""
        plan = super().build(specs, available_bytes // 10 * 9)
        groups = [KVCacheGroup(layer_names=(name,), kv_cache_spec=spec) for name, spec in specs.items()]
        return attrs.evolve(plan, kv_cache_groups=tuple(groups))


class OneTensor(DefaultKVCacheConfigBuilder):
    """Lets all layers live in the tensor of the first."""

    def build(self, specs: Mapping[str, KVCacheSpec], available_bytes: int) -> KVCacheConfig:
        """Lay out the cache of one worker."""
        plan = super().build(specs, available_bytes)
        whole = KVCacheTensor(size=plan.kv_cache_tensors[0].size, shared_by=tuple(specs))
        return attrs.evolve(plan, kv_cache_tensors=(whole,))


class EachAll(DefaultKVCacheConfigBuilder):
    """Gives each layer all of the memory."""

    def build(self, specs: Mapping[str, KVCacheSpec], available_bytes: int) -> KVCacheConfig:
        """Lay out the cache of one worker."""
        return super().build(specs, available_bytes * len(specs))


class PlansApart(Good):
    """Names a planner of its own, which is right."""

    _builder: ClassVar[str] = "GroupsApart"

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: Any) -> str:
        """Name the planner of the KV cache."""
        return f"{HERE}.{cls._builder}"


class PlansOneTensor(PlansApart):
    """Names a planner that lets layers share their memory."""

    _builder: ClassVar[str] = "OneTensor"


class PlansEachAll(PlansApart):
    """Names a planner that plans more memory than there is."""

    _builder: ClassVar[str] = "EachAll"
