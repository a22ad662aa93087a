"""Executors: one that keeps the worker in this process, and one that gives it a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from platform_abc._config_checks import NOT_NEGATIVE
from platform_abc.components.kv_cache import KVCacheSpec
from platform_abc.components.worker import StepOutput
from platform_abc.errors import ConfigError
from platform_abc.timeline import Process
from reference_engine import trace
from reference_engine.child import Child, ChildStart, Handler, pickle_config
from reference_engine.worker_start import start_worker

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheConfig
    from platform_abc.components.worker import StepRequest
    from platform_abc.config import CacheConfig, EngineConfig
    from platform_abc.timeline_trace import Seen
    from reference_engine.hook_log import HookLog


T = TypeVar("T")


class Executor(Protocol):
    """What the engine core asks of its workers."""

    def cache_config(self) -> CacheConfig:
        """Return the cache part as the worker has it, its block size chosen."""
        ...

    def kv_cache_spec(self) -> Mapping[str, KVCacheSpec]:
        """Return what each layer stores."""
        ...

    def available_memory(self) -> int:
        """Return the bytes that the KV cache may take."""
        ...

    def initialize(self, kv_cache_config: KVCacheConfig) -> None:
        """Allocate the cache and warm up."""
        ...

    def execute(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        ...

    def traces(self) -> list[Seen]:
        """Return what was noted in processes of the executor's own."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


def refuse_more_than_one(config: EngineConfig) -> None:
    """Refuse a number of workers that these executors do not start.

    Raises:
        ConfigError: there is more than one.
    """
    workers = config.parallel_config.world_size
    if workers != 1:
        raise ConfigError(
            f"parallel_config.world_size = {workers}: expected 1, the reference engine starts one worker"
        )


class InProcessExecutor:
    """Keeps the worker in this process.

    Args:
        config: the configuration, which the worker shares.
        log: where the changes of hooks are recorded.
    """

    def __init__(self, config: EngineConfig, log: HookLog | None = None) -> None:
        refuse_more_than_one(config)
        self.config = config
        self.worker = start_worker(config, log=log)

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
        self.worker.compile_or_warm_up_model()

    def execute(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        output = self.worker.execute_model(requests)
        right = isinstance(cast("object", output), StepOutput) and all(
            NOT_NEGATIVE.accepts(output.next_token_ids.get(request.request_id)) for request in requests
        )
        return self._answer("execute_model", output, right, "a StepOutput with a token for each request")

    def _answer(self, method: str, answer: T, right: bool, expected: str) -> T:
        """Return what the worker answered, if it is right; it is a vendor's, so its annotation proves nothing."""
        if not right:
            raise TypeError(
                f"{method} of {type(self.worker).__name__} returned {answer!r}, expected {expected}"
            )
        return answer

    def traces(self) -> list[Seen]:
        """Return nothing: this process's own trace has it all."""
        return []

    def close(self) -> None:
        """End the worker."""
        self.worker.shutdown()


def serve_worker(config: EngineConfig, start: ChildStart) -> Handler:
    """Start the worker in its process and return what answers the engine core."""
    executor = InProcessExecutor(config)
    del start

    def answer(name: str, args: tuple[Any, ...]) -> Any:
        method = getattr(executor, name)
        return method(*args)

    return answer


class ProcessExecutor:
    """Gives the worker a process of its own; the configuration goes there pickled.

    Args:
        config: the configuration.
        report: the front end's resolution report, as JSON.
        traced: note what the worker asks of the platform.

    Raises:
        ProcessFailed: the worker did not start.
    """

    def __init__(self, config: EngineConfig, report: str, *, traced: bool = False) -> None:
        refuse_more_than_one(config)
        pickled = pickle_config(config)
        trace.step("the config is pickled")
        start = ChildStart(process=Process.WORKER, config=pickled, report=report, traced=traced)
        self._child = Child(serve_worker, start)

    def cache_config(self) -> CacheConfig:
        """Return the cache part as the worker has it."""
        found: CacheConfig = self._child.call("cache_config")
        return found

    def kv_cache_spec(self) -> Mapping[str, KVCacheSpec]:
        """Return what each layer stores."""
        found: Mapping[str, KVCacheSpec] = self._child.call("kv_cache_spec")
        return found

    def available_memory(self) -> int:
        """Return the bytes that the KV cache may take."""
        found: int = self._child.call("available_memory")
        return found

    def initialize(self, kv_cache_config: KVCacheConfig) -> None:
        """Allocate the cache and warm up."""
        self._child.call("initialize", kv_cache_config)

    def execute(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        output: StepOutput = self._child.call("execute", requests)
        return output

    def traces(self) -> list[Seen]:
        """Return what the worker noted."""
        seen: list[Seen] = self._child.call("trace")
        return seen

    def close(self) -> None:
        """End the worker's process."""
        self._child.close()
