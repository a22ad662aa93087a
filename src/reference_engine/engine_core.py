"""The engine core: lays out the cache, gives blocks to requests and runs steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from platform_abc.components.worker import StepRequest
from platform_abc.errors import ConfigError
from reference_engine.engine_config import run_config_hooks
from reference_engine.executor import Executor, InProcessExecutor, ProcessExecutor
from reference_engine.hook_log import HookLog
from reference_engine.kv_cache import make_kv_cache_config

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from platform_abc.timeline_trace import Seen
    from reference_engine.child import ChildStart, Handler
    from reference_engine.input_processor import Request

_CHOSEN_BY_WORKERS = ("block_size", "mamba_block_size", "mamba_page_size_padded", "skip_page_size_padded")


@attrs.frozen(kw_only=True)
class Result:
    """What became of one request.

    Args:
        request_id: its name.
        tokens: what was generated.
        error: why it was not; empty if it was.
    """

    request_id: str
    tokens: Sequence[int] = ()
    error: str = ""


@attrs.define
class _Running:
    request: Request
    blocks: Sequence[int]
    tokens: list[int] = attrs.field(factory=list[int])

    def next_step(self) -> StepRequest:
        """Return the prompt at first, then the token that was generated last."""
        prompt = self.request.prompt
        done = len(prompt) + len(self.tokens) - 1 if self.tokens else 0
        return StepRequest(
            request_id=self.request.request_id,
            token_ids=self.tokens[-1:] or prompt,
            num_computed_tokens=done,
            block_ids=self.blocks,
        )


class EngineCore:
    """Runs requests on an executor.

    Args:
        config: the configuration.
        executor: the workers, started.
        again: this is a process of its own, which constructs the configuration once more.
        log: where the changes of hooks are recorded.

    Raises:
        ConfigError: a hook wrote nonsense, or the block size after the cache was made.
        ValueError: the memory does not hold one block.
    """

    def __init__(
        self, config: EngineConfig, executor: Executor, *, again: bool = False, log: HookLog | None = None
    ) -> None:
        from platforms import current_platform

        self.config = config
        self.executor = executor
        chosen = executor.cache_config()
        for name in _CHOSEN_BY_WORKERS:
            setattr(config.cache_config, name, getattr(chosen, name))
        specs = executor.kv_cache_spec()
        layout = make_kv_cache_config(config, specs, executor.available_memory(), log)
        executor.initialize(layout)
        config.cache_config.num_gpu_blocks = layout.num_blocks
        self.free = list(range(layout.num_blocks))
        if again:
            before = config.cache_config.block_size
            run_config_hooks(config, current_platform, log)
            if config.cache_config.block_size != before:
                raise ConfigError(
                    f"cache_config.block_size = {config.cache_config.block_size}: expected {before}, with which "
                    f"the cache was made; hooks of {type(current_platform).__name__} change it when they run "
                    "again, move that into update_block_size_for_backend"
                )

    def generate(self, requests: Sequence[Request]) -> list[Result]:
        """Run requests to their end, as many at once as fit.

        Args:
            requests: checked requests.

        Returns:
            One result a request, in their order.
        """
        waiting = list(requests)
        results: dict[str, Result] = {}
        running: list[_Running] = []
        try:
            while waiting or running:
                self._admit(waiting, running, results)
                if running:
                    self._step(running, results)
        finally:
            # A step that raised must not cost the next requests their blocks.
            for one in running:
                self.free.extend(one.blocks)
        return [results[request.request_id] for request in requests]

    def _step(self, running: list[_Running], results: dict[str, Result]) -> None:
        """Run one step and take out the requests that it has ended."""
        output = self.executor.execute([one.next_step() for one in running])
        for one in list(running):
            name = one.request.request_id
            one.tokens.append(output.next_token_ids[name])
            if len(one.tokens) >= one.request.max_tokens:
                running.remove(one)
                self.free.extend(one.blocks)
                results[name] = Result(request_id=name, tokens=tuple(one.tokens))

    def _admit(self, waiting: list[Request], running: list[_Running], results: dict[str, Result]) -> None:
        """Start waiting requests, in order, while a step has room and blocks are free."""
        scheduler = self.config.scheduler_config
        budget = scheduler.max_num_batched_tokens - len(running)
        while waiting and len(running) < scheduler.max_num_seqs:
            request = waiting[0]
            length = len(request.prompt) + request.max_tokens
            needed = -(-length // self.config.cache_config.block_size)
            reason = self._never_fits(request, needed)
            if reason:
                results[request.request_id] = Result(request_id=request.request_id, error=reason)
                waiting.pop(0)
                continue
            if needed > len(self.free) or len(request.prompt) > budget:
                return
            budget -= len(request.prompt)
            blocks = [self.free.pop(0) for _ in range(needed)]
            running.append(_Running(waiting.pop(0), blocks))

    def _never_fits(self, request: Request, needed: int) -> str:
        total = self.config.cache_config.num_gpu_blocks or 0
        most = self.config.scheduler_config.max_num_batched_tokens - (
            self.config.scheduler_config.max_num_seqs - 1
        )
        if needed > total:
            return f"request {request.request_id} needs {needed} blocks, the KV cache has {total}"
        if len(request.prompt) > most:
            return f"request {request.request_id} has {len(request.prompt)} prompt tokens, a step has room for {most}"
        return ""

    def close(self) -> None:
        """End the workers."""
        self.executor.close()


def serve_engine_core(config: EngineConfig, start: ChildStart) -> Handler:
    """Start the engine core in its process, with a worker process of its own."""
    executor = ProcessExecutor(config, start.report, traced=start.traced)
    try:
        core = EngineCore(config, executor, again=True)
    except BaseException:
        executor.close()
        raise

    def answer(name: str, args: tuple[Any, ...]) -> Any:
        if name == "worker_trace":
            seen: list[Seen] = core.executor.traces()
            return seen
        if name == "config":
            return core.config
        return getattr(core, name)(*args)

    return answer


def start_in_process(config: EngineConfig, log: HookLog | None = None) -> EngineCore:
    """Start the engine core and its worker in this process."""
    executor = InProcessExecutor(config, log)
    try:
        return EngineCore(config, executor, log=log)
    except BaseException:
        executor.close()
        raise
