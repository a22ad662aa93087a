"""Facts about the engine core: blocks, batches, and the second run of the config hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from platform_abc.components.kv_cache import AttentionSpec, KVCacheConfig, KVCacheSpec
from platform_abc.components.worker import StepOutput, StepRequest
from platform_abc.config import CacheConfig, EngineConfig
from platform_abc.errors import ConfigError
from platforms.cpu import CpuPlatform
from reference_engine.args import EngineArgs
from reference_engine.engine_config import create_engine_config
from reference_engine.engine_core import EngineCore
from reference_engine.input_processor import Request
from reference_engine.scheduler import Result, Scheduler

Use = Callable[..., Any]


class Counting:
    """An executor whose next token is the number of tokens that the request has."""

    def __init__(self, block_size: int = 16) -> None:
        self.cache = CacheConfig(block_size=block_size)
        self.steps: list[list[StepRequest]] = []
        self.closed = False

    def cache_config(self) -> CacheConfig:
        return self.cache

    def kv_cache_spec(self) -> Mapping[str, KVCacheSpec]:
        spec = AttentionSpec(block_size=self.cache.block_size, num_kv_heads=1, head_size=8, dtype="float32")
        return {"layers.0": spec}

    def available_memory(self) -> int:
        return 1 << 20

    def initialize(self, kv_cache_config: KVCacheConfig) -> None:
        self.layout = kv_cache_config

    def execute(self, requests: Sequence[StepRequest]) -> StepOutput:
        self.steps.append(list(requests))
        used = [block for request in requests for block in request.block_ids]
        assert len(used) == len(set(used)), "two requests share a block"
        for request in requests:
            total = request.num_computed_tokens + len(request.token_ids)
            assert len(request.block_ids) * self.cache.block_size >= total
        return StepOutput(
            next_token_ids={r.request_id: r.num_computed_tokens + len(r.token_ids) for r in requests}
        )

    def traces(self) -> list[Any]:
        return []

    def close(self) -> None:
        self.closed = True


def request(name: str, prompt: int, most: int) -> Request:
    return Request(request_id=name, prompt=(1,) * prompt, max_tokens=most)


def generate(core: EngineCore, requests: Sequence[Request]) -> list[Result]:
    """Run requests to their end; results in their order."""
    done = {result.request_id: result for result in core.add(requests)}
    while core.busy:
        done |= {result.request_id: result for result in core.step()}
    return [done[request.request_id] for request in requests]


def core_of(executor: Counting, **args: Any) -> EngineCore:
    return EngineCore(create_engine_config(EngineArgs(dtype="float32", **args)), executor)


def test_requests_run_together_and_come_back_in_their_order(use_platform: Use) -> None:
    """The prompt first, then one token a step, each counted on from what is in the cache."""
    use_platform()
    executor = Counting()
    core = core_of(executor)
    results = generate(core, [request("b", 5, 3), request("a", 2, 1)])
    assert [(r.request_id, tuple(r.tokens)) for r in results] == [("b", (5, 6, 7)), ("a", (2,))]
    assert [len(step) for step in executor.steps] == [2, 1, 1]
    assert executor.steps[1][0].token_ids == (5,)
    assert sorted(core.scheduler.pools[0].free) == list(range(64))
    core.close()
    assert executor.closed


def test_a_step_holds_as_many_requests_and_tokens_as_the_scheduler_allows(use_platform: Use) -> None:
    """Waiting ones follow as soon as there is room, in order."""
    use_platform()
    executor = Counting()
    core = core_of(executor, max_num_seqs=2, max_num_batched_tokens=10)
    results = generate(core, [request(str(i), 6, 2) for i in range(5)])
    assert all(len(result.tokens) == 2 for result in results)
    assert max(len(step) for step in executor.steps) == 2
    assert max(sum(len(one.token_ids) for one in step) for step in executor.steps) <= 10


def test_a_full_cache_makes_requests_wait_and_one_too_large_is_refused(use_platform: Use) -> None:
    """Blocks of finished requests are used again; the one that never fits gets an error."""
    use_platform()
    executor = Counting(block_size=4)
    core = core_of(executor, num_gpu_blocks_override=3)
    results = generate(core, [request("a", 8, 2), request("big", 9, 5), request("c", 8, 2)])
    assert [bool(result.error) for result in results] == [False, True, False]
    assert "request big needs 4 blocks, the KV cache has 3" in results[1].error
    assert core.config.cache_config.block_size == 4


def test_a_prompt_larger_than_a_step_is_refused_where_it_may_not_run_in_parts(use_platform: Use) -> None:
    """With chunks it takes two steps."""
    use_platform()
    limits = {"max_num_seqs": 2, "max_num_batched_tokens": 8}
    (result,) = generate(core_of(Counting(), **limits), [request("long", 9, 1)])
    assert result.tokens == (9,)
    core = core_of(Counting(), enable_chunked_prefill=False, **limits)
    (result,) = generate(core, [request("long", 9, 1)])
    assert "has 9 prompt tokens, a step has room for 8" in result.error


class OwnScheduler(Scheduler):
    """A platform's own."""


def test_a_platform_may_name_a_scheduler_of_its_own(use_platform: Use) -> None:
    """A subclass of the engine's, by class or by name; anything else is refused."""

    def chosen(named: Any) -> Scheduler:
        def update(cls: type, config: EngineConfig) -> None:
            CpuPlatform.check_and_update_config(config)
            config.scheduler_config.scheduler_cls = named

        use_platform(check_and_update_config=update)
        return core_of(Counting()).scheduler

    assert isinstance(chosen(OwnScheduler), OwnScheduler)
    assert type(chosen("reference_engine.scheduler.Scheduler")) is Scheduler
    with pytest.raises(ConfigError, match=r"scheduler_cls = 'collections\.OrderedDict': expected a class"):
        chosen("collections.OrderedDict")


def test_the_second_run_of_the_hooks_is_told_and_changes_nothing(
    use_platform: Use, caplog: pytest.LogCaptureFixture
) -> None:
    """In a process of its own, the core constructs the config once more."""
    use_platform()
    config = create_engine_config(EngineArgs(dtype="float32"))
    caplog.set_level("DEBUG", "platform_abc.hooks.calls")
    EngineCore(config, Counting(), again=True)
    told = [record.getMessage() for record in caplog.records]
    assert [text for text in told if text.startswith("check_and_update_config")] == [
        "check_and_update_config: changed nothing"
    ]


def test_a_hook_that_moves_the_block_size_under_the_cache_is_refused(use_platform: Use) -> None:
    """A size set in the config hook would undo what the worker chose."""

    def sets(_cls: type, config: EngineConfig) -> None:
        config.parallel_config.worker_cls = "pkg.Worker"
        config.cache_config.block_size = 128

    use_platform(check_and_update_config=sets)
    config = create_engine_config(EngineArgs(dtype="float32"))
    with pytest.raises(ConfigError, match=r"block_size = 128: expected 16.*move that into update_block_size"):
        EngineCore(config, Counting(), again=True)
