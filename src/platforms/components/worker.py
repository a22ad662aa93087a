"""The worker of this package: it starts a device, loads a model, fills a cache and runs steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import torch
from torch._C._distributed_c10d import FileStore, HashStore, PrefixStore, ProcessGroup, Store, TCPStore

from platform_abc.components.kv_cache import (
    AttentionSpec,
    KVCacheConfig,
    KVCacheGroup,
    KVCacheSpec,
    KVCacheTensor,
    MambaSpec,
)
from platform_abc.components.worker import (
    EngineModel,
    ModelBuilder,
    StepDetails,
    StepOutput,
    StepRequest,
    WorkerBase,
)
from platform_abc.errors import ConfigError, NotSupported
from platform_abc.qualname import resolve_obj_by_qualname
from platforms.components import device_memory
from platforms.components.paged_sdpa import numbers
from platforms.components.worker_batch import CacheOfLayers, make_batch, memory_order
from platforms.process_group import make_group

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionLayerBase
    from platform_abc.components.communicator import DeviceCommunicatorBase
    from platform_abc.config import EngineConfig, ModelConfig
    from platforms.native import NativePlatform

GROUP_TIMEOUT: Final = timedelta(minutes=5)
"""Longest wait for the other ranks, at the start and in a collective."""


class DeviceWorker(WorkerBase):
    """Runs one share of the engine's model on the platform's device.

    Everything about the device comes from `current_platform`.
    """

    def __init__(
        self,
        vllm_config: EngineConfig,
        local_rank: int = 0,
        rank: int = 0,
        distributed_init_method: str = "",
        is_driver_worker: bool = True,
    ) -> None:
        from platforms import current_platform

        super().__init__(vllm_config, local_rank, rank, distributed_init_method, is_driver_worker)
        self.platform: NativePlatform = current_platform
        self.model: EngineModel | None = None
        self._visible = 0
        self._cache: CacheOfLayers | None = None
        self.communicator: DeviceCommunicatorBase | None = None
        self._groups: list[ProcessGroup] = []

    # --- start

    def init_device(self) -> None:
        """Choose the device, join the group of ranks, and seed the device.

        Raises:
            ConfigError: there is no model part, or the device cannot compute in its dtype.
            RuntimeError: it was called before; the other ranks would not meet this one again.
        """
        if self.communicator is not None:
            raise RuntimeError(
                "the device was initialised already: call shutdown before a second init_device"
            )
        platform = self.platform
        self._visible = platform.logical_device_id_to_visible_device_id(self.local_rank)
        self.device = self.torch_device(self._visible)
        platform.set_device(self.device)
        self._check_dtype()
        self.communicator = self._join()
        platform.manual_seed_all(self._model_config().seed)

    def torch_device(self, visible: int) -> torch.device:
        """Return the device on which this worker's tensors live; a subclass may choose another.

        Args:
            visible: the visible id that this worker's local rank stands for.
        """
        kind = self.platform.device_type
        # The host is one torch device, however many memory nodes it has.
        return torch.device("cpu") if kind == "cpu" else torch.device(kind, visible)

    def _check_dtype(self) -> None:
        try:
            self.platform.check_if_supports_dtype(self._dtype())
        except NotImplementedError:
            # A platform that declares no such limit computes in every dtype.
            return

    def _join(self) -> DeviceCommunicatorBase:
        platform, size = self.platform, self.parallel_config.world_size
        if size == 1:
            # Nothing is ever moved; the communicator only wants to know that it is alone.
            cpu_group = make_group(
                platform.device_name, "gloo", PrefixStore("world", HashStore()), 0, 1, GROUP_TIMEOUT
            )
            device_group = cpu_group
        else:
            store = self._meet(size)
            cpu_group = make_group(
                platform.device_name, "gloo", PrefixStore("cpu", store), self.rank, size, GROUP_TIMEOUT
            )
            device_group = platform.stateless_init_device_torch_dist_pg(
                backend=platform.dist_backend,
                prefix_store=PrefixStore("device", store),
                group_rank=self.rank,
                group_size=size,
                timeout=GROUP_TIMEOUT,
            )
        self._groups = [cpu_group, device_group]
        named = platform.get_device_communicator_cls()
        try:
            chosen = cast("type[DeviceCommunicatorBase]", resolve_obj_by_qualname(named))
        except Exception as error:
            error.add_note(f"named by get_device_communicator_cls of {type(platform).__name__}")
            raise
        return chosen(cpu_group, self.device, device_group, unique_name="tensor-parallel")

    def _meet(self, size: int) -> Store:
        parallel = self.parallel_config
        address = self.distributed_init_method or f"tcp://{parallel.master_addr}:{parallel.master_port}"
        where = urlsplit(address)
        try:
            if where.scheme == "file" and where.path:
                return FileStore(where.path, size)
            if where.scheme == "tcp" and where.hostname and where.port:
                return TCPStore(where.hostname, where.port, size, self.rank == 0, GROUP_TIMEOUT)
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                f"rank {self.rank} of {size} did not meet the others at {address}: {error}"
            ) from error
        raise ValueError(f"expected tcp://host:port or file:///path to meet the other ranks, got {address!r}")

    # --- model

    def load_model(self, build: ModelBuilder | None = None) -> None:
        """Build the model on the device.

        Args:
            build: the engine's builder; this worker has no model of its own.

        Raises:
            NotSupported: there is no builder.
            RuntimeError: the device was not initialised.
        """
        device, _ = self._started()
        if build is None:
            who = type(self).__name__
            raise NotSupported("load_model without a builder", who, "pass the engine's builder")
        self.model = build(self.vllm_config, device)

    def get_model(self) -> torch.nn.Module:
        """Return the model.

        Raises:
            RuntimeError: it is not loaded.
            TypeError: the engine's builder made something that is no torch module.
        """
        model: object = self._loaded()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"expected the model to be a torch.nn.Module, got {type(model).__name__}")
        return model

    # --- cache

    def get_kv_cache_spec(self) -> Mapping[str, KVCacheSpec]:
        """Return what each layer stores, by layer name."""
        layers = self._loaded().layers()
        specs = {name: layer.get_kv_cache_spec(self.vllm_config) for name, layer in layers.items()}
        return {name: spec for name, spec in specs.items() if spec is not None}

    def determine_available_memory(self) -> int:
        """Return the bytes that the KV cache may take.

        A step of the largest size is run to see what it needs. The answer is the share of the device's
        memory that the engine may fill, less what is in use and what that step takes; and not more than
        all requests of the largest batch can fill. Ranks that share a device share what is left of it.

        Raises:
            ConfigError: nothing is left.
        """
        cache = self.cache_config
        if cache.kv_cache_memory_bytes is not None:
            return cache.kv_cache_memory_bytes
        device, _ = self._started()
        step = device_memory.bytes_taken_by(self._largest_step(), device)
        total, used = device_memory.total_and_used(self.platform, self._visible)
        ranks = self._ranks_on_device()
        left = (math.floor(total * cache.gpu_memory_utilization) - used) // ranks - step
        if left <= 0:
            raise ConfigError(
                f"cache_config.gpu_memory_utilization = {cache.gpu_memory_utilization}: no memory is left for "
                f"the KV cache: of {total} bytes for {ranks} ranks, {used} are in use and a step takes {step}; "
                "raise it, or set cache_config.kv_cache_memory_bytes"
            )
        return min(left, self._most_useful())

    def _ranks_on_device(self) -> int:
        if not self.platform.is_cpu():
            return 1
        # The host is one device for all ranks, unless its memory nodes are told apart.
        return -(-self.parallel_config.world_size // self.platform.device_count())

    def _largest_step(self) -> Callable[[], object]:
        """Return a step of the largest size, with a cache of its own that is allocated already."""
        longest = min(self.scheduler_config.max_num_batched_tokens, self._model_config().max_model_len)
        specs = self.get_kv_cache_spec()
        blocks = max((spec.blocks_for(longest) for spec in specs.values()), default=0)
        groups = [KVCacheGroup(layer_names=(name,), kv_cache_spec=spec) for name, spec in specs.items()]
        tensors = [
            KVCacheTensor(size=spec.page_size_bytes * blocks, shared_by=(name,))
            for name, spec in specs.items()
        ]
        layout = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=tensors, kv_cache_groups=groups)
        cache = self._lay_out(layout)
        request = StepRequest(request_id="profile", token_ids=[0] * longest, block_ids=range(blocks))
        return lambda: self._run([request], cache)

    def _most_useful(self) -> int:
        longest, requests = self._model_config().max_model_len, self.scheduler_config.max_num_seqs
        specs = self.get_kv_cache_spec().values()
        return sum(requests * spec.blocks_for(longest) * spec.page_size_bytes for spec in specs)

    def initialize_from_config(self, kv_cache_config: KVCacheConfig) -> None:
        """Allocate the cache and give each layer its part.

        Args:
            kv_cache_config: its layout.

        Raises:
            ValueError: the layout has no room for a layer, or names one that there is not.
        """
        self._cache = self._lay_out(kv_cache_config)

    def _lay_out(self, layout: KVCacheConfig) -> CacheOfLayers:
        device, layers = self._started()[0], self._loaded().layers()
        return CacheOfLayers.of(layout, self._allocate(layout), layers, self.vllm_config, device)

    def _allocate(self, layout: KVCacheConfig) -> dict[str, torch.Tensor]:
        device, layers = self._started()[0], self._loaded().layers()
        specs = {name: g.kv_cache_spec for g in layout.kv_cache_groups for name in g.layer_names}
        caches: dict[str, torch.Tensor] = {}
        for tensor in layout.kv_cache_tensors:
            memory = torch.zeros(tensor.size, dtype=torch.uint8, device=device)
            for name in tensor.shared_by:
                if name not in layers or name not in specs:
                    raise ValueError(
                        f"the cache's layout names a layer {name!r}, which this model does not have"
                    )
                caches[name] = self._as_cache(name, layers[name], specs[name], memory, layout.num_blocks)
        without = [name for name in self.get_kv_cache_spec() if name not in caches]
        if without:
            raise ValueError(f"the cache's layout has no room for the layers {', '.join(without)}")
        return caches

    def _as_cache(
        self, name: str, layer: AttentionLayerBase, spec: KVCacheSpec, memory: torch.Tensor, blocks: int
    ) -> torch.Tensor:
        if isinstance(spec, MambaSpec):
            self._check_size(name, memory, spec.page_size_bytes * blocks)
            return memory[: spec.page_size_bytes * blocks].view(blocks, spec.page_size_bytes)
        if not isinstance(spec, AttentionSpec):
            raise ValueError(
                f"expected keys and values or a state for the layer {name!r}, got {type(spec).__name__}"
            )
        backend = layer.get_attn_backend()
        shape = backend.get_kv_cache_shape(
            blocks, spec.block_size, spec.num_kv_heads, spec.head_size, spec.cache_dtype
        )
        stored = spec.dtype if spec.cache_dtype == "auto" else spec.cache_dtype
        dtype: torch.dtype = getattr(torch, str(stored).removeprefix("torch."))
        needed = math.prod(shape) * dtype.itemsize
        self._check_size(name, memory, needed)
        order = memory_order(backend, shape)
        in_memory = memory[:needed].view(dtype).view([shape[place] for place in order])
        return in_memory.permute([order.index(place) for place in range(len(shape))])

    @staticmethod
    def _check_size(name: str, memory: torch.Tensor, needed: int) -> None:
        if memory.numel() < needed:
            raise ValueError(f"the layer {name!r} needs {needed} bytes, but its tensor has {memory.numel()}")

    def get_kv_caches(self) -> Mapping[str, torch.Tensor]:
        """Return the cache of each layer, by layer name."""
        return {} if self._cache is None else self._cache.by_layer

    def compile_or_warm_up_model(self) -> None:
        """Run the largest step once, so that the first request does not pay for lazy initialisation."""
        self._largest_step()()

    # --- steps

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step; the next token of each request is the likeliest one.

        Args:
            requests: the batch, ragged.

        Raises:
            ValueError: a request has no tokens, or not enough blocks.
            RuntimeError: there is no cache yet.
        """
        if not requests:
            return StepOutput(next_token_ids={})
        if self._cache is None:
            raise RuntimeError("the KV cache was not initialised: call initialize_from_config first")
        self._check(requests)
        requests = self._cache.ordered(requests)
        likeliest = numbers(self._run(requests, self._cache).argmax(-1))
        if not likeliest:
            # The platform gathers logits to another rank.
            return StepOutput(next_token_ids={})
        names = [request.request_id for request in requests]
        return StepOutput(next_token_ids=dict(zip(names, likeliest, strict=True)))

    def _run(self, requests: Sequence[StepRequest], cache: CacheOfLayers) -> torch.Tensor:
        """Return the logits of the last token of each request, or no rows at all."""
        device, _ = self._started()
        ids, positions, metadata, last = make_batch(requests, cache, device)
        adapted = any(request.lora_id for request in requests)
        lora_ids = [request.lora_id for request in requests for _ in request.token_ids] if adapted else ()
        details = StepDetails(logit_rows=last, lora_ids=lora_ids)
        return self._loaded().run(ids, positions, metadata, cache.by_layer, details)

    def _check(self, requests: Sequence[StepRequest]) -> None:
        """Refuse tokens that the model does not know, and adapters where there are none.

        Raises:
            ValueError: naming the request or the token.
        """
        vocabulary = self._model_config().vocab_size
        for request in requests:
            if request.lora_id and self.vllm_config.lora_config is None:
                raise ValueError(
                    f"request {request.request_id!r} asks for adapter {request.lora_id}, but lora_config is None"
                )
            ids = request.token_ids
            if ids and not (min(ids) >= 0 and max(ids) < vocabulary):
                wrong = next(token for token in ids if not 0 <= token < vocabulary)
                raise ValueError(f"expected tokens from 0 to {vocabulary - 1}, got {wrong}")

    # --- state

    def check_health(self) -> None:
        """Return if the worker can run a step.

        Raises:
            RuntimeError: it cannot, and what was not called yet.
        """
        self._started()
        self._loaded()

    def shutdown(self) -> None:
        """Leave the group of ranks and free the model and its cache."""
        if self.communicator is not None:
            self.communicator.destroy()
        for name in self.model.layers() if self.model is not None else ():
            self.vllm_config.compilation_config.static_forward_context.pop(name, None)
        self.communicator, self.model, self._cache = None, None, None
        self._groups = []

    def _started(self) -> tuple[torch.device, DeviceCommunicatorBase]:
        if self.device is None or self.communicator is None:
            raise RuntimeError("the device was not initialised: call init_device first")
        return self.device, self.communicator

    def _loaded(self) -> EngineModel:
        if self.model is None:
            raise RuntimeError("the model is not loaded: call load_model first")
        return self.model

    def _model_config(self) -> ModelConfig:
        if self.model_config is None:
            raise ConfigError("model_config = None: a worker needs a model; set model_config")
        return self.model_config

    def _dtype(self) -> torch.dtype:
        asked = self._model_config().dtype
        if not isinstance(asked, str):
            return asked
        if asked != "auto":
            named: torch.dtype = getattr(torch, asked)
            return named
        supported = self.platform.supported_dtypes
        if not supported:
            raise TypeError(
                f"supported_dtypes of {type(self.platform).__name__} is {supported!r}; expected torch dtypes, "
                "the default first"
            )
        return supported[0]
