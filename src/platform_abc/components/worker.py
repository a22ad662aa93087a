"""The worker: what runs one share of the model on one device.

Its dotted name is `parallel_config.worker_cls`, which the platform sets in `check_and_update_config`.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from platform_abc.errors import NotSupported

if TYPE_CHECKING:
    import torch

    from platform_abc.components.attention import AttentionLayerBase, AttentionMetadata
    from platform_abc.components.kv_cache import KVCacheConfig, KVCacheSpec
    from platform_abc.config import EngineConfig


def _tuple(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


def _tuples(groups: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(values) for values in groups)


def _tuple_or_none(values: Iterable[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


@attrs.frozen(kw_only=True)
class StepDetails:
    """What a worker may tell the model of a step beside its tokens.

    Args:
        logit_rows: the tokens, counted from 0 over the whole step, whose logits are wanted, in order;
            None for all.
        lora_ids: number of each token's adapter, 0 for none; empty where no token has one.
    """

    logit_rows: Sequence[int] | None = attrs.field(converter=_tuple_or_none, default=None)
    lora_ids: Sequence[int] = attrs.field(converter=_tuple, default=())


class EngineModel(Protocol):
    """The engine's model on one device, as a worker runs it."""

    def layers(self) -> Mapping[str, AttentionLayerBase]:
        """Return the layers that keep a cache, by name."""
        ...

    def run(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        metadata: Mapping[str, AttentionMetadata],
        kv_caches: Mapping[str, torch.Tensor],
        details: StepDetails | None = None,
    ) -> torch.Tensor:
        """Run the tokens of one step.

        Args:
            token_ids: int64 `[T]`, all requests one after the other.
            positions: int64 `[T]`, each token's place in its request.
            metadata: what each layer's backend built for this step, by layer name.
            kv_caches: each layer's cache, by layer name: in the shape that its backend gave, or, where
                the layer keeps a state, uint8 `[blocks, bytes of a page]`.
            details: whose logits are wanted, and which adapters are used; None for all, and none.

        Returns:
            Logits, `[T or wanted tokens, vocabulary]`, or more columns with minus infinity in them. No rows
            on a rank to which the platform does not gather them.
        """
        ...


class ModelBuilder(Protocol):
    """The engine's function that builds its model."""

    def __call__(self, config: EngineConfig, device: torch.device, /) -> EngineModel:
        """Build the model and enter its layers in `compilation_config.static_forward_context`.

        Args:
            config: the engine's configuration.
            device: where the weights go.
        """
        ...


@attrs.frozen(kw_only=True)
class StepRequest:
    """One request's share of a step.

    Args:
        request_id: its name.
        token_ids: tokens to run in this step, in order.
        num_computed_tokens: tokens of the request that are in the cache already.
        block_ids: blocks of the request, in order, enough for the tokens of this step.
        lora_id: adapter of the request; 0 is the base model.
        group_block_ids: its blocks in each cache group, in the order of `KVCacheConfig.kv_cache_groups`, where
            there are several; empty if `block_ids` serves every group.
    """

    request_id: str
    token_ids: Sequence[int] = attrs.field(converter=_tuple)
    num_computed_tokens: int = 0
    block_ids: Sequence[int] = attrs.field(converter=_tuple, default=())
    lora_id: int = 0
    group_block_ids: Sequence[Sequence[int]] = attrs.field(converter=_tuples, default=())


@attrs.frozen(kw_only=True)
class StepOutput:
    """What a step gives back.

    Args:
        next_token_ids: request name -> the next token; empty on a rank to which logits are not gathered.
    """

    next_token_ids: Mapping[str, int]


class WorkerBase(abc.ABC):
    """Runs one share of the model. The engine calls the methods in the order in which they stand here.

    Args:
        vllm_config: the engine's configuration; the engine passes it by this name.
        local_rank: this worker among those of the same machine.
        rank: this worker among all.
        distributed_init_method: where the ranks meet, a URL for `torch.distributed`.
        is_driver_worker: this worker answers for its group.
    """

    def __init__(
        self,
        vllm_config: EngineConfig,
        local_rank: int = 0,
        rank: int = 0,
        distributed_init_method: str = "",
        is_driver_worker: bool = True,
    ) -> None:
        self.vllm_config = vllm_config
        self.model_config = vllm_config.model_config
        self.cache_config = vllm_config.cache_config
        self.parallel_config = vllm_config.parallel_config
        self.scheduler_config = vllm_config.scheduler_config
        self.device_config = vllm_config.device_config
        self.local_rank = local_rank
        self.rank = rank
        self.distributed_init_method = distributed_init_method
        self.is_driver_worker = is_driver_worker
        self.device: torch.device | None = None

    @abc.abstractmethod
    def init_device(self) -> None:
        """Choose the device, seed it, and join the process group where there is more than one rank."""

    @abc.abstractmethod
    def load_model(self, build: ModelBuilder | None = None) -> None:
        """Build the model on the device; its layers enter `static_forward_context`.

        Args:
            build: the engine's builder; None lets the worker take a model of its own.
        """

    @abc.abstractmethod
    def get_kv_cache_spec(self) -> Mapping[str, KVCacheSpec]:
        """Return what each layer stores, by layer name."""

    @abc.abstractmethod
    def determine_available_memory(self) -> int:
        """Return the bytes that the KV cache may take.

        They are `cache_config.kv_cache_memory_bytes` where the user has set that, or the whole blocks of it.
        """

    @abc.abstractmethod
    def initialize_from_config(self, kv_cache_config: KVCacheConfig) -> None:
        """Allocate the cache.

        Args:
            kv_cache_config: its layout.
        """

    def compile_or_warm_up_model(self) -> None:
        """Compile, capture and warm up; by default nothing."""
        return

    @abc.abstractmethod
    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step.

        Args:
            requests: the batch, ragged.
        """

    @abc.abstractmethod
    def get_model(self) -> torch.nn.Module:
        """Return the model."""

    def get_kv_caches(self) -> Mapping[str, torch.Tensor]:
        """Return the cache of each layer, by layer name, as `EngineModel.run` gets it.

        The engine copies blocks of it to the host and back.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported(
            "get_kv_caches",
            type(self).__name__,
            "override it with the tensors that initialize_from_config has made, or leave cache_config.num_cpu_blocks "
            "unset",
        )

    def check_health(self) -> None:
        """Return at once if the worker can run a step; by default it can.

        Raises:
            RuntimeError: it cannot, and why.
        """
        return

    def shutdown(self) -> None:
        """Free the device and leave the process group; by default nothing.

        An override drops the model, its caches and what `static_forward_context` has of its layers, so that another
        worker can start in the same process.
        """
        return
