"""The engine core: lays out the cache, plans steps and has them run."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from platform_abc.errors import ConfigError
from platform_abc.hooks import trace
from platform_abc.qualname import resolve_obj_by_qualname
from reference_engine.engine_config import run_config_hooks
from reference_engine.executor import DistributedExecutor, InProcessExecutor, refuse_more_than_one
from reference_engine.kv_cache import make_kv_cache_config
from reference_engine.processes.child_side import failure_text
from reference_engine.scheduler import Result, Scheduler
from reference_engine.worker_start import start_worker

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheConfig
    from platform_abc.config import EngineConfig
    from reference_engine.executor import Executor
    from reference_engine.input_processor import Request
    from reference_engine.processes.child_side import Line, Loop
    from reference_engine.processes.child_start import ChildStart

_CHOSEN_BY_WORKERS = ("block_size", "mamba_block_size", "mamba_page_size_padded", "skip_page_size_padded")


class EngineCore:
    """Runs requests on an executor.

    Args:
        config: the configuration.
        executor: the workers, started.
        again: this is a process of its own, which constructs the configuration once more.

    Raises:
        ConfigError: a hook wrote nonsense, or the block size after the cache was made.
        ValueError: the memory does not hold one block.
    """

    def __init__(self, config: EngineConfig, executor: Executor, *, again: bool = False) -> None:
        from platforms import current_platform

        self.config = config
        self.executor = executor
        chosen = executor.cache_config()
        for name in _CHOSEN_BY_WORKERS:
            setattr(config.cache_config, name, getattr(chosen, name))
        specs = executor.kv_cache_spec()
        layout = make_kv_cache_config(config, specs, executor.available_memory())
        executor.initialize(layout)
        config.cache_config.num_gpu_blocks = layout.num_blocks
        if again:
            before = config.cache_config.block_size
            run_config_hooks(config, current_platform)
            if config.cache_config.block_size != before:
                raise ConfigError(
                    f"cache_config.block_size = {config.cache_config.block_size}: expected {before}, with which "
                    f"the cache was made; hooks of {type(current_platform).__name__} change it when they run "
                    "again, move that into update_block_size_for_backend"
                )
        self.scheduler = make_scheduler(config, layout)

    @property
    def busy(self) -> bool:
        """There are requests that have not ended."""
        return self.scheduler.busy

    def add(self, requests: Sequence[Request]) -> list[Result]:
        """Queue requests.

        Args:
            requests: checked by the front end.

        Returns:
            Those that can never run, each with its error.
        """
        reasons = {request.request_id: self.scheduler.add(request) for request in requests}
        return [Result(request_id=name, error=reason) for name, reason in reasons.items() if reason]

    def step(self) -> list[Result]:
        """Run one step and return the requests that it has ended."""
        planned = self.scheduler.schedule()
        if self.scheduler.moves:
            self.executor.move_blocks(self.scheduler.moves)
        output = self.executor.execute([one.share() for one in planned])
        return self.scheduler.update(planned, output)

    def close(self) -> None:
        """End the workers."""
        self.executor.close()


def make_scheduler(config: EngineConfig, layout: KVCacheConfig) -> Scheduler:
    """Return the scheduler that the configuration names, or the engine's own.

    Args:
        config: its `scheduler_config.scheduler_cls` may name a subclass of `Scheduler`.
        layout: the cache.

    Raises:
        ConfigError: it names something else.
    """
    named = config.scheduler_config.scheduler_cls
    if named is None:
        return Scheduler(config, layout)
    chosen: object = resolve_obj_by_qualname(named) if isinstance(named, str) else named
    if not (isinstance(chosen, type) and issubclass(chosen, Scheduler)):
        raise ConfigError(
            f"scheduler_config.scheduler_cls = {named!r}: expected a class that derives from "
            "reference_engine.scheduler.Scheduler"
        )
    return chosen(config, layout)


def _work(core: EngineCore, line: Line) -> None:
    """Run the engine core in a process of its own until the front end is gone, or something fails.

    It takes requests at any time, and sends `("done", results)` and `("answer", number, value)`.
    """
    try:
        while True:
            while line.waiting() or not core.busy:
                _take(core, line)
            done = core.step()
            if done:
                line.send(True, ("done", done))
    except EOFError:
        core.close()
    except BaseException as error:  # noqa: BLE001 - told to the front end, whatever it is
        line.send(False, failure_text(error))
        core.close()
        raise SystemExit(1) from None


def _take(core: EngineCore, line: Line) -> None:
    """Take one message.

    Raises:
        EOFError: the front end is gone, or wants no more.
    """
    name, args, _ = line.receive()
    if name == "end":
        raise EOFError
    if name == "add":
        refused = core.add(args[0])
        if refused:
            line.send(True, ("done", refused))
    elif name == "abort":
        core.scheduler.abort(args[0])
    else:
        workers = core.executor
        answer = [*trace.moments(), *workers.traces()] if name == "trace" else workers.check_health()
        line.send(True, ("answer", args[0], answer))


def serve_engine_core(config: EngineConfig, start: ChildStart) -> Loop:
    """Start the engine core in its process, and its workers in theirs."""
    executor = _start_workers(config, start)
    try:
        return functools.partial(_work, EngineCore(config, executor, again=True))
    except BaseException:
        executor.close()
        raise


def _start_workers(config: EngineConfig, start: ChildStart) -> DistributedExecutor:
    if config.parallel_config.distributed_executor_backend == "ray":
        from reference_engine.ray_executor import RayWorkers

        return DistributedExecutor(RayWorkers(config, start))
    from reference_engine.process_executor import WorkerProcesses

    return DistributedExecutor(WorkerProcesses(config, start))


def start_in_process(config: EngineConfig) -> EngineCore:
    """Start the engine core and its worker in this process.

    Raises:
        ConfigError: there are more workers than one.
    """
    refuse_more_than_one(config)
    executor = InProcessExecutor(config, start_worker(config))
    try:
        return EngineCore(config, executor)
    except BaseException:
        executor.close()
        raise
