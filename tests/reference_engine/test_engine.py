"""Facts about the whole engine: what it generates, in which process, and what it leaves behind."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from platform_abc.components.quantization import register_quantization_config, unregister_quantization_config
from platform_abc.config import EngineConfig
from platform_abc.errors import ConfigError
from platform_abc.requests import SamplingParams
from platform_abc.timeline import Process
from platform_abc.timeline_trace import violations
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from reference_engine.engine_core import Result
from tests.reference_engine import components
from tests.reference_engine.components import Rounded

Use = Callable[..., Any]
PROMPTS = [[1, 2, 3], [5, 6, 7, 8, 9, 10], [4], list(range(40))]
COMPONENTS = "tests.reference_engine.components"


@pytest.fixture(autouse=True)
def _kernels_again() -> Iterator[None]:
    """Let each engine of this process import its custom ops, as the first one of a process does."""
    sys.modules.pop("reference_model.custom_ops", None)
    yield


def generate(prompts: list[list[int]] = PROMPTS, most: int = 6, **args: Any) -> list[tuple[int, ...]]:
    with Engine(EngineArgs(dtype="float32", **args)) as engine:
        results = engine.generate(prompts, SamplingParams(max_tokens=most))
    assert [result.error for result in results] == [""] * len(prompts)
    return [tuple(result.tokens) for result in results]


def test_tokens_do_not_depend_on_batch_block_size_or_backend_path(use_platform: Use) -> None:
    """Ragged prompts together, alone, over any block size, opaque or direct: the same tokens."""
    use_platform()
    together = generate()
    assert all(len(tokens) == 6 for tokens in together)
    assert len(set(together)) == len(PROMPTS)
    assert [generate([prompt])[0] for prompt in PROMPTS] == together
    for size in (1, 8, 64):
        assert generate(block_size=size, num_gpu_blocks_override=300) == together
    assert generate(max_num_seqs=1) == together
    assert generate(num_gpu_blocks_override=4) == together
    use_platform(opaque_attention_op=lambda _cls: False)
    assert generate() == together
    use_platform(use_sync_weight_loader=lambda _cls: True)
    assert generate() == together
    assert generate(seed=1) != together


def test_decoding_equals_prefilling_the_same_tokens(use_platform: Use) -> None:
    """A prompt that holds what was generated goes on as the generation did."""
    use_platform()
    (whole,) = generate([PROMPTS[1]], most=6)
    (rest,) = generate([PROMPTS[1] + list(whole[:3])], most=3)
    assert whole[3:] == rest


def test_a_refused_request_does_not_stop_the_others(use_platform: Use) -> None:
    """Empty, unknown token, refused by the platform, or too large for the cache: that one only."""

    def validate(_cls: type, inputs: Any, params: Any) -> None:
        if inputs.prompt_token_ids == [9]:
            raise ValueError("not on this device")

    use_platform(validate_request=validate)
    prompts = [[1], [], [999], [9], [2] * 100, [3]]
    with Engine(EngineArgs(dtype="float32", num_gpu_blocks_override=4)) as engine:
        results = engine.generate(prompts, SamplingParams(max_tokens=2))
    assert [bool(result.tokens) for result in results] == [True, False, False, False, False, True]
    assert "no tokens" in results[1].error
    assert "token 999" in results[2].error
    assert results[3].error == "not on this device"
    assert "needs 7 blocks, the KV cache has 4" in results[4].error


def test_every_picker_is_used(use_platform: Use) -> None:
    """Graph wrapper, adapters and quantization change how a step runs, and it still runs."""
    register_quantization_config("rounded")(Rounded)
    components.CountingWrapper.calls.clear()
    platform = use_platform(
        support_static_graph_mode=lambda _cls: True,
        get_static_graph_wrapper_cls=lambda _cls: f"{COMPONENTS}.CountingWrapper",
        get_punica_wrapper=lambda _cls: f"{COMPONENTS}.TorchPunica",
        check_and_update_config=_own_worker,
        supported_quantization=[],
    )
    platform.get_global_graph_pool = lambda: None
    try:
        tokens = generate(cudagraph_mode="FULL", enable_lora=True, quantization="rounded")
    finally:
        unregister_quantization_config("rounded")
    assert len(tokens) == len(PROMPTS)
    assert set(components.CountingWrapper.calls) == {"FULL"}


def _own_worker(_cls: type, config: EngineConfig) -> None:
    config.parallel_config.worker_cls = "platforms.components.worker.DeviceWorker"


@pytest.mark.parametrize(
    ("members", "args", "text"),
    [
        (
            {"update_block_size_for_backend": lambda _cls, c: setattr(c.cache_config, "block_size", 0)},
            {},
            "hook update_block_size_for_backend of ChangedPlatform",
        ),
        (
            {
                "check_and_update_config": lambda _cls, c: setattr(
                    c.parallel_config, "worker_cls", "collections.OrderedDict"
                )
            },
            {},
            "parallel_config.worker_cls = 'collections.OrderedDict': expected a class that derives",
        ),
        ({}, {"tensor_parallel_size": 2}, "expected 1 with the in-process executor"),
    ],
)
def test_what_cannot_start_says_which_hook_or_field(
    use_platform: Use, members: dict[str, Any], args: dict[str, Any], text: str
) -> None:
    """Failures of the start are config errors that name the culprit."""
    use_platform(**members)
    with pytest.raises(ConfigError) as caught:
        Engine(EngineArgs(dtype="float32", **args))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "hook",
    [
        "pre_register_and_update",
        "validate_environ",
        "get_device_capability",
        "apply_config_platform_defaults",
        "get_default_ir_op_priority",
        "check_and_update_config",
        "support_hybrid_kv_cache",
        "check_max_model_len",
        "log_warnings",
        "import_kernels",
        "register_triton_kernel_overrides",
        "import_ir_kernels",
        "get_attn_backend_cls",
        "update_block_size_for_backend",
        "register_custom_kv_cache_specs",
        "get_kv_cache_config_builder_cls",
        "set_additional_forward_context",
        "get_max_output_tokens",
    ],
)
def test_a_hook_that_raises_is_named_wherever_it_is_called(use_platform: Use, hook: str) -> None:
    """Its own exception passes, with a note of which hook of whom it was."""

    def fails(_cls: type, *args: Any, **kwargs: Any) -> Any:
        raise KeyError("seeded")

    use_platform(**{hook: fails})
    with pytest.raises(KeyError, match="seeded") as caught:
        generate([[1]], most=1)
    assert caught.value.__notes__ == [f"raised in hook {hook} of ChangedPlatform"]


def test_one_process_follows_the_timeline(use_platform: Use) -> None:
    """Every hook is called where, as often and in the order that the table says."""
    platform = use_platform()
    kind = type(platform)
    with Engine(EngineArgs(dtype="float32"), traced=True) as engine:
        assert all(result.tokens for result in engine.generate(PROMPTS, SamplingParams(max_tokens=2)))
        trace = engine.traces()
    assert violations(trace, "one-process") == []
    names = [seen.name for seen in trace]
    assert {seen.process for seen in trace} == {Process.FRONT_END}
    assert names.count("validate_request") == len(PROMPTS)
    assert names.count("get_attn_backend_cls") == 1
    assert names.count("check_and_update_config") == 1
    assert names.index("check_and_update_config") < names.index("import_kernels")
    assert type(platform) is kind


def test_three_processes_give_the_same_tokens_and_follow_the_timeline(
    monkeypatch: pytest.MonkeyPatch, use_platform: Use
) -> None:
    """The config goes on pickled, each process resolves again, the core runs the hooks a second time."""
    use_platform()
    expected = generate()
    import platforms

    platforms.reset_current_platform()
    with Engine(EngineArgs(dtype="float32", executor="mp"), traced=True) as engine:
        results: list[Result] = engine.generate([*PROMPTS, []], SamplingParams(max_tokens=6))
        trace = engine.traces()
    assert [tuple(result.tokens) for result in results] == [*expected, ()]
    assert violations(trace, "worker-processes") == []
    by_process = {process: [seen.name for seen in trace if seen.process is process] for process in Process}
    assert by_process[Process.ENGINE_CORE].count("check_and_update_config") == 1
    assert "check_and_update_config" not in by_process[Process.WORKER]
    assert "update_block_size_for_backend" in by_process[Process.WORKER]
    assert "update_block_size_for_backend" not in by_process[Process.ENGINE_CORE]
    assert multiprocessing.active_children() == []
