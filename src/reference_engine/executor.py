"""Executors: how the engine core reaches its workers, here or in other processes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from platform_abc._config_checks import NOT_NEGATIVE
from platform_abc.components.kv_cache import KVCacheSpec
from platform_abc.components.worker import StepOutput
from platform_abc.errors import ConfigError
from platform_abc.hooks import trace
from reference_engine.worker_start import start_worker

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheConfig
    from platform_abc.components.worker import StepRequest, WorkerBase
    from platform_abc.config import CacheConfig, EngineConfig
    from platform_abc.hooks.trace import Moment
    from reference_engine.host_blocks import HostBlocks
    from reference_engine.process_executor import WorkerProcesses
    from reference_engine.processes.child_side import Handler
    from reference_engine.processes.child_start import ChildStart
    from reference_engine.ray_executor import RayWorkers
    from reference_engine.scheduler import Move

T = TypeVar("T")


def refuse_more_than_one(config: EngineConfig) -> None:
    """Refuse more workers than one in one process.

    Raises:
        ConfigError: there is more than one.
    """
    workers = config.parallel_config.world_size
    if workers != 1:
        raise ConfigError(
            f"parallel_config.world_size = {workers}: expected 1 with the in-process executor; take the executor "
            "'processes' or 'ray' for more workers"
        )


class InProcessExecutor:
    """Keeps the worker in this process.

    Args:
        config: the configuration, which the worker shares.
        worker: started.
    """

    def __init__(self, config: EngineConfig, worker: WorkerBase) -> None:
        self.config = config
        self.worker = worker
        self._host_blocks: HostBlocks | None = None

    def cache_config(self) -> CacheConfig:
        """Return the cache part, which is the engine core's own."""
        return self.config.cache_config

    def kv_cache_spec(self) -> Mapping[str, KVCacheSpec]:
        """Return what each layer stores."""
        specs = self.worker.get_kv_cache_spec()
        right = isinstance(cast("object", specs), Mapping) and all(
            isinstance(cast("object", spec), KVCacheSpec) for spec in specs.values()
        )
        return self._answer("get_kv_cache_spec", specs, right, "a mapping of layer names to KVCacheSpec")

    def available_memory(self) -> int:
        """Return the bytes that the KV cache may take."""
        memory = self.worker.determine_available_memory()
        right = NOT_NEGATIVE.accepts(memory)
        return self._answer("determine_available_memory", memory, right, "a whole number of bytes")

    def initialize(self, kv_cache_config: KVCacheConfig) -> None:
        """Allocate the cache and warm up."""
        self.worker.initialize_from_config(kv_cache_config)
        on_host = self.config.cache_config.num_cpu_blocks
        if on_host:
            from reference_engine.host_blocks import HostBlocks

            caches = self.worker.get_kv_caches()
            right = isinstance(cast("object", caches), Mapping)
            self._answer("get_kv_caches", caches, right, "a mapping of layer names to their caches")
            self._host_blocks = HostBlocks(caches, kv_cache_config, on_host)
        self.worker.compile_or_warm_up_model()

    def move_blocks(self, moves: Sequence[Move]) -> None:
        """Copy blocks of the cache to the host and back, in this order."""
        if self._host_blocks is None:
            raise RuntimeError("no blocks were made on the host: cache_config.num_cpu_blocks was not set")
        self._host_blocks.move(moves)

    def execute(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        output = self.worker.execute_model(requests)
        right = isinstance(cast("object", output), StepOutput) and (
            # Logits may be gathered on the first rank alone.
            self.worker.rank > 0
            or all(
                NOT_NEGATIVE.accepts(output.next_token_ids.get(request.request_id)) for request in requests
            )
        )
        return self._answer("execute_model", output, right, "a StepOutput with a token for each request")

    def _answer(self, method: str, answer: T, right: bool, expected: str) -> T:
        """Return what the worker answered, if it is right; it is a vendor's, so its annotation proves nothing."""
        if not right:
            raise TypeError(
                f"{method} of {type(self.worker).__name__} returned {answer!r}, expected {expected}"
            )
        return answer

    def check_health(self) -> None:
        """Return at once if a step can run.

        Raises:
            RuntimeError: the worker cannot run one.
        """
        self.worker.check_health()

    def traces(self) -> list[Moment]:
        """Return what was noted in this process."""
        return trace.moments()

    def close(self) -> None:
        """End the worker."""
        self.worker.shutdown()


def serve_worker(config: EngineConfig, start: ChildStart) -> Handler:
    """Start the worker in its process and return what answers the engine core."""
    _share_processors(config)
    worker = start_worker(
        config, rank=start.instance, local_rank=start.local_rank, distributed_init_method=start.init_method
    )
    executor = InProcessExecutor(config, worker)
    return lambda name, args: getattr(executor, name)(*args)


def _share_processors(config: EngineConfig) -> None:
    """Give each worker of this machine its share of the processors, where nobody has said how many."""
    if config.parallel_config.world_size > 1 and "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, torch.get_num_threads() // config.parallel_config.world_size))


class DistributedExecutor:
    """Speaks for one or more workers that live in processes of their own.

    Args:
        workers: started, the first rank first.
    """

    def __init__(self, workers: WorkerProcesses | RayWorkers) -> None:
        self._workers = workers

    def cache_config(self) -> CacheConfig:
        """Return the cache part as the workers have it.

        Raises:
            ConfigError: they have chosen different block sizes.
        """
        found: list[CacheConfig] = self._workers.ask("cache_config")
        _same(
            "cache_config.block_size after update_block_size_for_backend", [one.block_size for one in found]
        )
        return found[0]

    def kv_cache_spec(self) -> Mapping[str, KVCacheSpec]:
        """Return what each layer stores on one rank.

        Raises:
            ConfigError: the ranks differ, so that no layout serves all.
        """
        found: list[Mapping[str, KVCacheSpec]] = self._workers.ask("kv_cache_spec")
        _same("get_kv_cache_spec", found)
        return found[0]

    def available_memory(self) -> int:
        """Return the bytes that the KV cache may take on every rank."""
        return int(min(self._workers.ask("available_memory")))

    def initialize(self, kv_cache_config: KVCacheConfig) -> None:
        """Allocate the cache and warm up."""
        self._workers.ask("initialize", kv_cache_config)

    def move_blocks(self, moves: Sequence[Move]) -> None:
        """Copy blocks of the cache to the host and back, in this order."""
        self._workers.ask("move_blocks", moves)

    def execute(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step; the first rank answers for all."""
        return cast("StepOutput", self._workers.ask("execute", requests)[0])

    def check_health(self) -> None:
        """Return at once if a step can run."""
        self._workers.ask("check_health")

    def traces(self) -> list[Moment]:
        """Return what the workers noted."""
        return [moment for moments in self._workers.ask("traces") for moment in moments]

    def close(self) -> None:
        """End the workers."""
        self._workers.close()


def _same(what: str, found: Sequence[object]) -> None:
    """Refuse workers that differ.

    Raises:
        ConfigError: they do.
    """
    for rank, one in enumerate(found):
        if one != found[0]:
            raise ConfigError(
                f"{what}: {one} in worker {rank}, {found[0]} in worker 0, expected the same in all"
            )


Executor = InProcessExecutor | DistributedExecutor
"""What the engine core asks of its workers, wherever they are."""
