"""The attention backend that a picker names, with its kernels' limits, its implementation and metadata.

A backend is a class that is never instantiated: it says what its kernels accept and which classes do
the work. Shapes below use `T` for tokens of a step, `H` for query heads, `K` for key and value heads,
`D` for the head size, `B` for tokens in a block and `N` for blocks.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

import attrs

from platform_abc.config_values import AttentionType

if TYPE_CHECKING:
    import torch

    from platform_abc.components.kv_cache import KVCacheSpec
    from platform_abc.config import EngineConfig
    from platform_abc.config_values import AttentionSelectorConfig
    from platform_abc.types import DeviceCapability


@attrs.frozen
class MultipleOf:
    """A supported size that stands for all its multiples.

    Args:
        base: the smallest of them, in tokens.
    """

    base: int

    def __attrs_post_init__(self) -> None:
        smallest(self)

    def __str__(self) -> str:
        return f"multiple of {self.base}"


@attrs.define(kw_only=True)
class CommonAttentionMetadata:
    """What every backend's metadata is built from: the batch of one step.

    Args:
        query_start_loc: int32 `[requests + 1]`, where each request's tokens start; the last is `T`.
        seq_lens: int32 `[requests]`, tokens of each request with this step's included.
        block_table: int32 `[requests, most blocks of a request]`, block numbers in order.
        slot_mapping: int64 `[T]`, the slot `block * B + offset` in which each token is stored; a negative
            slot marks padding, which is stored nowhere.
        num_reqs: requests of the step.
        num_actual_tokens: `T` without padding; rows of the query beyond it are padding too.
        max_query_len: most tokens that one request has in this step.
        max_seq_len: largest of `seq_lens`.
        causal: a token sees only itself and what comes before.
    """

    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    causal: bool = True


class AttentionMetadata:
    """What a backend's implementation reads in a step; each backend derives its own."""

    replayable: ClassVar[bool] = False
    """A static graph may be replayed with another step's: whatever differs then are values of tensors, or
    attributes that are compared. An attrs class is taken apart for that."""


M = TypeVar("M", bound=AttentionMetadata)


class AttentionMetadataBuilder(abc.ABC, Generic[M]):
    """Turns the batch of a step into a backend's metadata.

    Args:
        kv_cache_spec: what the layers of this group store.
        layer_names: the layers of this group.
        config: the engine's configuration.
        device: where tensors go.
    """

    reorder_batch_threshold: ClassVar[int | None] = None
    """Requests with at most this many tokens in a step are put first; None leaves the order alone."""

    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        layer_names: Sequence[str],
        config: EngineConfig,
        device: torch.device,
    ) -> None:
        self.kv_cache_spec = kv_cache_spec
        self.layer_names = list(layer_names)
        self.config = config
        self.device = device

    @abc.abstractmethod
    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> M:
        """Build the metadata of one step.

        Args:
            common_prefix_len: tokens that all requests share at their start.
            common_attn_metadata: the batch.
            fast_build: prefer building fast to running fast, for metadata that is used once.
        """

    def build_for_cudagraph_capture(self, common_attn_metadata: CommonAttentionMetadata) -> M:
        """Build the metadata with which a static graph is captured.

        Args:
            common_attn_metadata: the batch of the capture.
        """
        return self.build(0, common_attn_metadata)


class AttentionLayer(Protocol):
    """What an implementation may read of the layer that calls it."""

    @property
    def layer_name(self) -> str:
        """The name under which the layer stands in the forward context."""
        ...


class AttentionImpl(abc.ABC, Generic[M]):
    """Computes attention for one layer.

    Args:
        num_heads: query heads of this rank.
        head_size: elements of one head.
        scale: factor of the scores, mostly `head_size ** -0.5`.
        num_kv_heads: key and value heads of this rank; None means `num_heads`.
        alibi_slopes: slope of each head's position bias; None for none.
        sliding_window: tokens that a token sees, itself included; None for all.
        kv_cache_dtype: how keys and values are stored.
        logits_soft_cap: scores pass `cap * tanh(score / cap)`; None for none.
        attn_type: what attends to what, a value of `AttentionType`.

    Raises:
        ValueError: `num_heads` is no multiple of `num_kv_heads`.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: Sequence[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER.value,
    ) -> None:
        self.num_heads = num_heads
        self.head_size = head_size
        self.scale = scale
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise ValueError(
                f"{num_heads} query heads cannot share {num_kv_heads} key and value heads evenly"
            )
        self.num_queries_per_kv = num_heads // self.num_kv_heads
        self.alibi_slopes = None if alibi_slopes is None else list(alibi_slopes)
        self.sliding_window = sliding_window
        self.kv_cache_dtype = kv_cache_dtype
        self.logits_soft_cap = logits_soft_cap
        self.attn_type = attn_type
        self.check_arguments()

    def check_arguments(self) -> None:
        """Refuse what this implementation has no place for; nothing by default.

        Called last by the constructor, when the arguments are there as attributes. What is neither computed nor
        refused, such as `logits_soft_cap` or `alibi_slopes`, gives wrong scores without a word.

        Raises:
            NotSupported: an override: the model needs what cannot be computed.
            ValueError: an override: an argument makes no sense.
        """

    @abc.abstractmethod
    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: M,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store this step's keys and values, then attend over all that is stored.

        Args:
            layer: the layer that calls.
            query: `[T, H, D]`.
            key: `[T, K, D]`.
            value: `[T, K, D]`.
            kv_cache: the layer's cache, of the shape that its backend's `get_kv_cache_shape` gave. A step changes the
                slots of its tokens in it, and what the layout keeps for their blocks as a whole, such as scales.
            attn_metadata: what the backend's builder built for this step.
            output: `[T, H, D]` to be filled; None allocates it.

        Returns:
            `[T, H, D]`, the same object as `output` where one was given.
        """

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Prepare what the implementation derives from weights; by default there is nothing.

        Called once before the first `forward`, when the weights of the layer are loaded.

        Args:
            act_dtype: dtype of activations.
        """
        del act_dtype


class AttentionBackend(abc.ABC):
    """What the attention picker names: the limits of some kernels and the classes that use them."""

    supported_dtypes: ClassVar[Sequence[str]] = ("float16", "bfloat16")
    """Dtypes of queries, by torch's names."""

    supported_kv_cache_dtypes: ClassVar[Sequence[str]] = ("auto",)
    """How keys and values may be stored."""

    accept_output_buffer: ClassVar[bool] = True
    """`AttentionImpl.forward` fills the `output` that it is given."""

    @staticmethod
    @abc.abstractmethod
    def get_name() -> str:
        """Return the name by which a user can ask for this backend."""

    @staticmethod
    @abc.abstractmethod
    def get_impl_cls() -> type[AttentionImpl[Any]]:
        """Return the class that computes attention for one layer."""

    @staticmethod
    @abc.abstractmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the class that builds the metadata of a step."""

    @staticmethod
    @abc.abstractmethod
    def get_kv_cache_shape(
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",
    ) -> tuple[int, ...]:
        """Return the shape of one layer's cache, for example `(2, N, B, K, D)`.

        Args:
            num_blocks: `N`.
            block_size: `B`, in tokens.
            num_kv_heads: `K` of this rank.
            head_size: `D`.
            cache_dtype_str: how keys and values are stored.
        """

    @staticmethod
    def get_kv_cache_stride_order() -> tuple[int, ...]:
        """Return in which order the shape's dimensions lie in memory, outermost first.

        Raises:
            NotImplementedError: the order of the shape; an engine takes that then.
        """
        raise NotImplementedError("the cache lies in memory in the order of its shape")

    @classmethod
    def full_cls_name(cls) -> tuple[str, str]:
        """Return the module and the name of the class."""
        return cls.__module__, cls.__qualname__

    @staticmethod
    def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
        """Return the block sizes that the kernels take, in tokens; empty means any."""
        return (MultipleOf(1),)

    @classmethod
    def supports_block_size(cls, block_size: int | None) -> bool:
        """Say whether a cache may have blocks of this many tokens.

        A block of the cache is split into blocks of the kernel, so a multiple of a supported size is
        accepted, also of a plain number. A backend that cannot be fed so overrides this.

        Args:
            block_size: tokens of a block; None, not chosen yet, is accepted.
        """
        if block_size is None:
            return True
        sizes = [smallest(size) for size in cls.get_supported_kernel_block_sizes()]
        return block_size > 0 and (not sizes or any(block_size % size == 0 for size in sizes))

    @classmethod
    def get_preferred_block_size(cls, default_block_size: int) -> int:
        """Return the block size that this backend alone would choose, in tokens.

        Args:
            default_block_size: the engine's default, which is kept where it is accepted.
        """
        sizes = [smallest(size) for size in cls.get_supported_kernel_block_sizes()]
        if not sizes or cls.supports_block_size(default_block_size):
            return default_block_size
        return min(sizes)

    @classmethod
    def customize_spec(cls, spec: KVCacheSpec) -> KVCacheSpec:
        """Return the cache spec with this backend's own packing; by default the spec itself.

        Args:
            spec: what the layer would store without packing.
        """
        return spec

    @classmethod
    def get_supported_head_sizes(cls) -> Sequence[int]:
        """Return the head sizes that the kernels take; empty means any."""
        return ()

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Say whether the kernels take this head size."""
        sizes = cls.get_supported_head_sizes()
        return not sizes or head_size in sizes

    @classmethod
    def supports_dtype(cls, dtype: torch.dtype) -> bool:
        """Say whether queries may have this dtype."""
        return str(dtype).removeprefix("torch.") in cls.supported_dtypes

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype: str | None) -> bool:
        """Say whether keys and values may be stored so; None counts as `auto`."""
        return (kv_cache_dtype or "auto") in cls.supported_kv_cache_dtypes

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        """Say whether the kernels do this kind of attention; by default a decoder's only."""
        return attn_type == AttentionType.DECODER.value

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Say whether a token's view can be limited."""
        return False

    @classmethod
    def supports_sink(cls) -> bool:
        """Say whether attention sinks are done."""
        return False

    @classmethod
    def supports_mm_prefix(cls) -> bool:
        """Say whether a prefix may attend in both directions."""
        return False

    @classmethod
    def supports_non_causal(cls) -> bool:
        """Say whether a whole step may attend in both directions."""
        return False

    @classmethod
    def is_mla(cls) -> bool:
        """Say whether this backend is for latent attention."""
        return False

    @classmethod
    def is_sparse(cls) -> bool:
        """Say whether this backend attends to chosen tokens only."""
        return False

    @classmethod
    def is_ssm(cls) -> bool:
        """Say whether this backend keeps a state instead of keys and values."""
        return False

    @classmethod
    def supports_compute_capability(cls, capability: DeviceCapability | None) -> bool:
        """Say whether the kernels run on a device of this capability; by default on any.

        Args:
            capability: the device's; None where the platform has no such number.
        """
        del capability
        return True

    @classmethod
    def validate_configuration(
        cls,
        config: AttentionSelectorConfig,
        capability: DeviceCapability | None = None,
    ) -> list[str]:
        """Return the reasons why this backend cannot serve a layer; empty if it can.

        Args:
            config: what the picker was asked.
            capability: the device's capability.
        """
        refused: Mapping[str, bool] = {
            f"head size {config.head_size}": not cls.supports_head_size(config.head_size),
            f"dtype {config.dtype}": not cls.supports_dtype(config.dtype),
            f"KV cache dtype {config.kv_cache_dtype}": not cls.supports_kv_cache_dtype(config.kv_cache_dtype),
            f"block size {config.block_size}": not cls.supports_block_size(config.block_size),
            f"attention type {config.attn_type}": not cls.supports_attn_type(config.attn_type),
            "latent attention": config.use_mla and not cls.is_mla(),
            "attention other than latent": cls.is_mla() and not config.use_mla,
            "sparse attention": config.use_sparse and not cls.is_sparse(),
            "attention other than sparse": cls.is_sparse() and not config.use_sparse,
            "attention sinks": config.has_sink and not cls.supports_sink(),
            "a prefix in both directions": config.use_mm_prefix and not cls.supports_mm_prefix(),
            "a sliding window": config.has_sliding_window and not cls.supports_sliding_window(),
            "non-causal attention": config.use_non_causal and not cls.supports_non_causal(),
            f"compute capability {capability}": not cls.supports_compute_capability(capability),
        }
        return [f"{what} is not supported" for what, is_refused in refused.items() if is_refused]


def smallest(size: int | MultipleOf) -> int:
    """Return the number of tokens that a supported size stands for, its smallest multiple.

    Raises:
        ValueError: it is neither a whole number of at least 1 nor a `MultipleOf`.
    """
    # By its attribute, not its class: another engine's own "multiple of" reads the same.
    base: object = getattr(cast("object", size), "base", size)
    if not isinstance(base, int) or isinstance(base, bool) or base < 1:
        raise ValueError(f"a supported block size is a whole number of at least 1, got {size!r}")
    return base


class AttentionLayerBase(Protocol):
    """What stands in `compilation_config.static_forward_context`: a layer that keeps a cache."""

    def get_attn_backend(self) -> type[AttentionBackend]:
        """Return the backend that was selected for this layer."""
        ...

    def get_kv_cache_spec(self, config: EngineConfig) -> KVCacheSpec | None:
        """Return what the layer stores; None if it shares another layer's cache."""
        ...
