"""Facts of `platforms.cpu`: what its config hooks change and refuse, and how it reads devices."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable

import pytest

from platform_abc.config import (
    CompilationConfig,
    CUDAGraphMode,
    EngineConfig,
    LoRAConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    changes_between,
    snapshot,
)
from platform_abc.errors import ConfigError
from platforms import common
from platforms.cpu import CpuPlatform

pytestmark = pytest.mark.torch
GIB = 1024**3
VARIABLE = CpuPlatform.device_control_env_var


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


# --- config hooks


def test_the_hook_changes_what_it_says_and_nothing_else() -> None:
    """On a plain config: the worker class, and a decision that nobody made."""
    config = EngineConfig(model_config=ModelConfig())
    before = snapshot(config)
    CpuPlatform.check_and_update_config(config)
    after = EngineConfig(model_config=ModelConfig())
    assert [str(change) for change in changes_between(after, config)] == [
        f"parallel_config.worker_cls: auto → {common.WORKER}",
        "scheduler_config.async_scheduling: None → False",
    ]
    assert before == snapshot(after)
    config.validate()


def test_values_of_the_user_survive() -> None:
    """A worker class and a schedule that the user chose stay."""
    config = EngineConfig(
        parallel_config=ParallelConfig(worker_cls="mine.Worker"),
        scheduler_config=SchedulerConfig(async_scheduling=True),
    )
    CpuPlatform.check_and_update_config(config)
    assert config.parallel_config.worker_cls == "mine.Worker"
    assert config.scheduler_config.async_scheduling is True


def test_twice_is_once_and_the_class_keeps_nothing() -> None:
    """The engine core runs the hook again on the pickled result; environment and class stay as they were."""
    config = EngineConfig(model_config=ModelConfig())
    environment, kept = dict(os.environ), dict(vars(CpuPlatform))
    CpuPlatform.check_and_update_config(config)
    once = snapshot(config)
    again = pickle.loads(pickle.dumps(config))
    CpuPlatform.apply_config_platform_defaults(again)
    CpuPlatform.check_and_update_config(again)
    assert snapshot(again) == once
    assert dict(os.environ) == environment
    assert dict(vars(CpuPlatform)) == kept


def test_every_optional_part_may_be_none() -> None:
    """Without model, LoRA, quantization, speculation, transfer and options, both hooks work."""
    config = EngineConfig(additional_config=None)
    assert config.model_config is None
    CpuPlatform.apply_config_platform_defaults(config)
    CpuPlatform.check_and_update_config(config)
    CpuPlatform.update_block_size_for_backend(config)
    assert config.parallel_config.worker_cls == common.WORKER


def _overlap(config: EngineConfig) -> None:
    config.parallel_config.enable_dbo = True


def _cache(config: EngineConfig) -> None:
    config.cache_config.cache_dtype = "fp8"


def _pipeline(config: EngineConfig) -> None:
    config.parallel_config.pipeline_parallel_size = 2


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        (_overlap, "parallel_config.enable_dbo = True"),
        (_cache, "cache_config.cache_dtype = fp8"),
        (_pipeline, "parallel_config.pipeline_parallel_size = 2"),
    ],
    ids=["overlap", "cache", "pipeline"],
)
def test_what_the_cpu_cannot_run_is_refused_by_field(
    wish: Callable[[EngineConfig], None], field: str
) -> None:
    """The error begins with the dotted field, so the user knows which setting to change."""
    config = EngineConfig()
    wish(config)
    with pytest.raises(ConfigError) as caught:
        CpuPlatform.check_and_update_config(config)
    assert str(caught.value).startswith(field)


def test_a_worker_of_the_users_may_do_more() -> None:
    """Limits of this package's worker do not bind another one."""
    config = EngineConfig(parallel_config=ParallelConfig(worker_cls="mine.Worker", pipeline_parallel_size=2))
    CpuPlatform.check_and_update_config(config)


def test_device_arguments_of_torch_are_understood() -> None:
    """A text, a number, a device or nothing."""
    import torch

    assert [common.device_index(d, "cpu") for d in (None, 2, "cpu", "cpu:3", torch.device("cpu"))] == [
        None,
        2,
        None,
        3,
        None,
    ]
    with pytest.raises(ValueError, match="'nonsense'"):
        common.device_index("nonsense", "cpu")


@pytest.mark.parametrize("value", [",", "0,,1", "0,0", "-1"])
def test_a_malformed_list_of_nodes_is_named_by_every_query(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Counting devices does not read the variable in another way than the queries do."""
    monkeypatch.setenv("CPU_VISIBLE_MEMORY_NODES", value)
    for query in (
        CpuPlatform.device_count,
        CpuPlatform.get_device_total_memory,
        CpuPlatform.get_all_device_numa_nodes,
    ):
        with pytest.raises(ValueError, match=f"CPU_VISIBLE_MEMORY_NODES='{value}'"):
            query()


def test_a_device_of_another_type_has_no_memory_here() -> None:
    """The memory of a GPU is not the host's."""
    for query in (CpuPlatform.get_current_memory_usage, CpuPlatform.mem_get_info):
        with pytest.raises(ValueError, match="of the type 'cpu', got cuda:1"):
            query("cuda:1")


def test_a_dtype_given_as_text_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spelling that the engine did not resolve is refused like the dtype; `auto` is decided later."""
    monkeypatch.setattr(CpuPlatform, "_dtype_names", classmethod(lambda cls: ("bfloat16", "float32")))
    for spelling in ("half", "float16"):
        with pytest.raises(ConfigError, match="model_config.dtype = float16"):
            CpuPlatform.check_and_update_config(EngineConfig(model_config=ModelConfig(dtype=spelling)))
    for spelling in ("auto", "float", "bfloat16"):
        CpuPlatform.check_and_update_config(EngineConfig(model_config=ModelConfig(dtype=spelling)))


def test_adapters_and_graphs_are_served() -> None:
    """The config with both is accepted, and the pickers name what serves them."""
    config = EngineConfig(
        lora_config=LoRAConfig(),
        compilation_config=CompilationConfig(cudagraph_mode=CUDAGraphMode.FULL),
    )
    CpuPlatform.check_and_update_config(config)
    assert CpuPlatform.get_punica_wrapper() == common.TORCH_LORA
    assert CpuPlatform.get_static_graph_wrapper_cls() == common.EAGER_GRAPHS
