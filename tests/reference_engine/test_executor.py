"""Facts about the executors: what a worker answers is checked before the engine computes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from platform_abc.components.worker import StepOutput, StepRequest
from platform_abc.config import EngineConfig, ParallelConfig
from platform_abc.errors import ConfigError
from reference_engine.executor import InProcessExecutor, refuse_more_than_one

REQUESTS = [StepRequest(request_id="a", token_ids=[1])]


class Saying:
    """A worker that says the same, whatever it is asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.rank = 0

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *_: self.answer


def executor_of(answer: object) -> InProcessExecutor:
    worker: Any = Saying(answer)
    return InProcessExecutor(EngineConfig(), worker)


@pytest.mark.parametrize("answer", [None, 3, {"layers.0": "spec"}])
def test_specs_are_a_mapping_of_specs(answer: object) -> None:
    """The error names the method and the worker's class."""
    with pytest.raises(TypeError, match="get_kv_cache_spec of Saying returned .*, expected a mapping"):
        executor_of(answer).kv_cache_spec()
    assert executor_of({}).kv_cache_spec() == {}


@pytest.mark.parametrize("answer", [None, -1, 1.5, True])
def test_memory_is_a_number_of_bytes(answer: object) -> None:
    """The error names the method and the worker's class."""
    with pytest.raises(TypeError, match="determine_available_memory of Saying returned"):
        executor_of(answer).available_memory()
    assert executor_of(7).available_memory() == 7


@pytest.mark.parametrize(
    "answer", [None, {}, StepOutput(next_token_ids={}), StepOutput(next_token_ids={"a": -1})]
)
def test_a_step_gives_a_token_for_each_request(answer: object) -> None:
    """The error names the method and the worker's class."""
    with pytest.raises(TypeError, match="execute_model of Saying returned .*, expected a StepOutput with"):
        executor_of(answer).execute(REQUESTS)
    right = StepOutput(next_token_ids={"a": 5})
    assert executor_of(right).execute(REQUESTS) is right


def test_caches_whose_blocks_are_to_be_moved_are_a_mapping() -> None:
    """Asked only where there are blocks on the host."""
    executor = executor_of(None)
    layout: Any = None
    executor.initialize(layout)
    executor.config.cache_config.num_cpu_blocks = 4
    with pytest.raises(TypeError, match="get_kv_caches of Saying returned None, expected a mapping of layer"):
        executor.initialize(layout)


def test_more_workers_than_one_are_refused() -> None:
    """The number is in the message."""
    config = EngineConfig(parallel_config=ParallelConfig(pipeline_parallel_size=2))
    with pytest.raises(ConfigError, match="world_size = 2"):
        refuse_more_than_one(config)
