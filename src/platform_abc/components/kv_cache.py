"""What layers store between steps, and the builder that turns it into a cache of blocks.

A spec says how many bytes one block (a page) of one layer takes. Layers with equal specs form a group
and share block numbers.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, cast

import attrs

if TYPE_CHECKING:
    import torch

    from platform_abc.config import EngineConfig

DTYPE_BITS: Final[Mapping[str, int]] = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "half": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "int8": 8,
    "uint8": 8,
    "int32": 32,
    "int64": 64,
}
"""Bits of one element, by torch's names."""

_SCALE_BYTES: Final = 4
"""Bytes of the float32 scale that per-token-head storage keeps for each token and head."""

_STORED_BITS: Final[Mapping[str, Fraction]] = {
    "float16": Fraction(16),
    "bfloat16": Fraction(16),
    "fp8": Fraction(8),
    "fp8_e4m3": Fraction(8),
    "fp8_e5m2": Fraction(8),
    "fp8_inc": Fraction(8),
    "fp8_per_token_head": Fraction(8),
    "int8_per_token_head": Fraction(8),
    "int4_per_token_head": Fraction(4),
    # Four bits, and one byte of scale for each 16 elements.
    "nvfp4": Fraction(4) + Fraction(8, 16),
    "nvfp4_4over6": Fraction(4) + Fraction(8, 16),
}


def dtype_bytes(dtype: torch.dtype | str) -> int:
    """Return the bytes of one element.

    Args:
        dtype: a torch dtype or its name.

    Raises:
        ValueError: the name is not known here.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BITS:
        raise ValueError(f"no element size is known for dtype {name!r} (known: {', '.join(DTYPE_BITS)})")
    return DTYPE_BITS[name] // 8


def stored_bytes(head_size: int, dtype: torch.dtype | str, cache_dtype: str) -> int:
    """Return the bytes that one token takes of one head's keys, or of its values.

    Args:
        head_size: elements of a head.
        dtype: the model's dtype, which `auto` stores.
        cache_dtype: how keys and values are stored.

    Raises:
        ValueError: the layout belongs to one backend alone; its `customize_spec` must say the size.
    """
    if cache_dtype == "auto":
        return head_size * dtype_bytes(dtype)
    if cache_dtype not in _STORED_BITS:
        raise ValueError(
            f"the layout of KV cache dtype {cache_dtype!r} belongs to its backend: "
            "its customize_spec must return a spec that knows the size"
        )
    elements = math.ceil(head_size * _STORED_BITS[cache_dtype] / 8)
    return elements + (_SCALE_BYTES if cache_dtype.endswith("_per_token_head") else 0)


@attrs.frozen(kw_only=True)
class KVCacheSpec(abc.ABC):
    """What one layer stores.

    Args:
        block_size: tokens of one block.
        page_size_padded: bytes to which a page is padded; None for no padding.
    """

    block_size: int
    page_size_padded: int | None = None

    @property
    @abc.abstractmethod
    def unpadded_page_size_bytes(self) -> int:
        """Bytes that one block needs."""

    @property
    def page_size_bytes(self) -> int:
        """Bytes that one block takes, padding included.

        Raises:
            ValueError: the padded size is smaller than what a block needs.
        """
        needed = self.unpadded_page_size_bytes
        if self.page_size_padded is None:
            return needed
        if self.page_size_padded < needed:
            raise ValueError(f"a page of {needed} bytes cannot be padded to {self.page_size_padded}")
        return self.page_size_padded

    def blocks_for(self, num_tokens: int) -> int:
        """Return the blocks that a request of `num_tokens` tokens needs."""
        return -(-num_tokens // self.block_size)


@attrs.frozen(kw_only=True)
class AttentionSpec(KVCacheSpec):
    """Keys and values of every token.

    Args:
        num_kv_heads: key and value heads of this rank.
        head_size: elements of a head.
        dtype: the model's dtype.
        cache_dtype: how keys and values are stored; `auto` is `dtype`.
        sliding_window: tokens that are looked back at; None for all.
    """

    num_kv_heads: int
    head_size: int
    dtype: torch.dtype | str
    cache_dtype: str = "auto"
    sliding_window: int | None = None

    @property
    def unpadded_page_size_bytes(self) -> int:
        """Bytes that one block needs: keys and values of all its tokens and heads."""
        one = stored_bytes(self.head_size, self.dtype, self.cache_dtype)
        return 2 * self.block_size * self.num_kv_heads * one


@attrs.frozen(kw_only=True)
class MLAAttentionSpec(AttentionSpec):
    """The compressed latent of every token, keys and values in one."""

    @property
    def unpadded_page_size_bytes(self) -> int:
        """Bytes that one block needs: the latent of all its tokens."""
        return (
            self.block_size * self.num_kv_heads * stored_bytes(self.head_size, self.dtype, self.cache_dtype)
        )


def _dtypes(dtypes: Iterable[torch.dtype | str]) -> tuple[torch.dtype | str, ...]:
    return tuple(dtypes)


def _shapes(shapes: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for shape in shapes)


@attrs.frozen(kw_only=True)
class MambaSpec(KVCacheSpec):
    """The state of a state-space layer; one block holds one whole state, however many tokens it covers.

    Args:
        shapes: shape of each tensor of the state.
        dtypes: dtype of each, in the same order.
    """

    shapes: Sequence[tuple[int, ...]] = attrs.field(converter=_shapes)
    dtypes: Sequence[torch.dtype | str] = attrs.field(converter=_dtypes)

    def __attrs_post_init__(self) -> None:
        if len(self.shapes) != len(self.dtypes):
            raise ValueError(
                f"{len(self.shapes)} shapes of a state need as many dtypes, got {len(self.dtypes)}"
            )

    @property
    def unpadded_page_size_bytes(self) -> int:
        """Bytes that one state needs."""
        pairs = zip(self.shapes, self.dtypes, strict=True)
        return sum(math.prod(shape) * dtype_bytes(dtype) for shape, dtype in pairs)


@attrs.frozen(kw_only=True)
class KVCacheTensor:
    """One allocation.

    Args:
        size: bytes.
        shared_by: names of the layers that live in it.
    """

    size: int
    shared_by: Sequence[str]


@attrs.frozen(kw_only=True)
class KVCacheGroup:
    """Layers that store the same and so share block numbers."""

    layer_names: Sequence[str]
    kv_cache_spec: KVCacheSpec


@attrs.frozen(kw_only=True)
class KVCacheConfig:
    """How the cache of one worker is laid out.

    Args:
        num_blocks: blocks of each group.
        kv_cache_tensors: the allocations.
        kv_cache_groups: the layers by what they store.
    """

    num_blocks: int
    kv_cache_tensors: Sequence[KVCacheTensor]
    kv_cache_groups: Sequence[KVCacheGroup]


class KVCacheConfigBuilder(abc.ABC):
    """Decides how the available memory becomes a cache; named by `get_kv_cache_config_builder_cls`.

    Args:
        config: the engine's configuration.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config

    @abc.abstractmethod
    def build(self, specs: Mapping[str, KVCacheSpec], available_bytes: int) -> KVCacheConfig:
        """Lay out the cache of one worker.

        Args:
            specs: what each layer stores, by layer name.
            available_bytes: memory that the cache may take.

        Raises:
            ValueError: not even one block fits.
        """


class DefaultKVCacheConfigBuilder(KVCacheConfigBuilder):
    """Groups layers by spec and gives every layer an allocation of its own."""

    def build(self, specs: Mapping[str, KVCacheSpec], available_bytes: int) -> KVCacheConfig:
        """Lay out the cache of one worker; see the base class."""
        if not specs:
            return KVCacheConfig(num_blocks=0, kv_cache_tensors=(), kv_cache_groups=())
        groups: dict[KVCacheSpec, list[str]] = {}
        for name, spec in specs.items():
            groups.setdefault(spec, []).append(name)
        per_block = sum(spec.page_size_bytes for spec in specs.values())
        num_blocks = self.config.cache_config.num_gpu_blocks_override or available_bytes // per_block
        if num_blocks < 1:
            raise ValueError(
                f"one block of all {len(specs)} layers takes {per_block} bytes, but only {available_bytes} "
                "are available for the KV cache: raise cache_config.gpu_memory_utilization or "
                "cache_config.kv_cache_memory_bytes"
            )
        return KVCacheConfig(
            num_blocks=num_blocks,
            kv_cache_tensors=tuple(
                KVCacheTensor(size=spec.page_size_bytes * num_blocks, shared_by=(name,))
                for name, spec in specs.items()
            ),
            kv_cache_groups=tuple(
                KVCacheGroup(layer_names=tuple(names), kv_cache_spec=spec) for spec, names in groups.items()
            ),
        )


_custom_specs: dict[str, type[KVCacheSpec]] = {}


def register_kv_cache_spec(name: str, spec: type[KVCacheSpec]) -> None:
    """Make a platform's own spec known to the engine; called from `register_custom_kv_cache_specs`.

    Args:
        name: a name of the platform's choice. The same class may be registered again.
        spec: the class.

    Raises:
        ValueError: the name stands for another class, or `spec` is no spec.
    """
    given = cast("object", spec)  # from a plugin, so its annotation proves nothing
    if not (isinstance(given, type) and issubclass(given, KVCacheSpec)):
        raise ValueError(f"a KV cache spec derives from KVCacheSpec, got {spec!r}")
    known = _custom_specs.get(name)
    # By name too: a module that is imported twice brings an equal class.
    if known is not None and (known.__module__, known.__qualname__) != (spec.__module__, spec.__qualname__):
        raise ValueError(f"the KV cache spec {name!r} is already {known.__module__}.{known.__qualname__}")
    _custom_specs[name] = spec


def custom_kv_cache_specs() -> Mapping[str, type[KVCacheSpec]]:
    """Return what platforms have registered, by name."""
    return dict(_custom_specs)
