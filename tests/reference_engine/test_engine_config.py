"""Facts about config creation: the order of hooks, what they changed, and who wrote nonsense."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.config import CompilationMode, CUDAGraphMode, EngineConfig, IrOpPriorityConfig, snapshot
from platform_abc.errors import ConfigError, NotSupported
from reference_engine.args import EngineArgs
from reference_engine.engine_config import create_engine_config, default_batched_tokens, run_config_hooks

Use = Callable[..., Any]


def test_hooks_run_in_the_documented_order(use_platform: Use) -> None:
    """Registration first, then the environment, the defaults, and the check last."""
    seen: list[str] = []

    def note(name: str, answer: Any = None) -> Callable[..., Any]:
        def hook(_cls: type, *args: Any, **_kwargs: Any) -> Any:
            seen.append(f"{name}{'' if name != 'pre_register_and_update' else args}")
            if name == "check_and_update_config":
                args[0].parallel_config.worker_cls = "pkg.Worker"
            return answer

        return hook

    names = (
        "pre_register_and_update",
        "validate_environ",
        "get_device_capability",
        "apply_config_platform_defaults",
        "check_and_update_config",
    )
    use_platform(
        **{name: note(name) for name in names},
        get_default_ir_op_priority=note("get_default_ir_op_priority", IrOpPriorityConfig()),
        support_hybrid_kv_cache=note("support_hybrid_kv_cache", True),
    )
    create_engine_config(EngineArgs())
    assert seen == [
        "pre_register_and_update()",
        "validate_environ",
        "get_device_capability",
        "apply_config_platform_defaults",
        "get_default_ir_op_priority",
        "check_and_update_config",
        "support_hybrid_kv_cache",
    ]


def test_what_each_hook_changed_is_told(use_platform: Use, caplog: pytest.LogCaptureFixture) -> None:
    """The debug log says which hook changed which field from what to what."""
    use_platform(apply_config_platform_defaults=lambda _cls, c: c.compilation_config.custom_ops.append("+x"))
    caplog.set_level("DEBUG", "platform_abc.hooks.calls")
    create_engine_config(EngineArgs())
    told = [record.getMessage() for record in caplog.records]
    assert "apply_config_platform_defaults: compilation_config.custom_ops: [] → [+x]" in told
    (call,) = [text for text in told if text.startswith("check_and_update_config: ")]
    assert "parallel_config.worker_cls: auto → platforms.components.worker.DeviceWorker" in call


@pytest.mark.parametrize("hook", ["apply_config_platform_defaults", "check_and_update_config"])
def test_a_hook_that_writes_nonsense_is_named(use_platform: Use, hook: str) -> None:
    """Both refused assignments and what slips past them name the field and the hook."""

    def assigns(_cls: type, config: EngineConfig) -> None:
        config.cache_config.block_size = "big"  # type: ignore[assignment]

    def slips(_cls: type, config: EngineConfig) -> None:
        config.compilation_config.custom_ops.append(3)  # type: ignore[arg-type]

    for write, field in (
        (assigns, "cache_config.block_size = 'big'"),
        (slips, "compilation_config.custom_ops = [3]"),
    ):
        use_platform(**{hook: write})
        with pytest.raises(ConfigError) as caught:
            create_engine_config(EngineArgs())
        assert str(caught.value).startswith(field)
        assert f"hook {hook} of ChangedPlatform" in str(caught.value)


def test_an_exception_of_a_hook_keeps_its_type_and_says_where(use_platform: Use) -> None:
    """The engine adds a note, and changes nothing of the exception."""

    def fails(_cls: type, config: EngineConfig) -> None:
        raise KeyError("section")

    use_platform(check_and_update_config=fails)
    with pytest.raises(KeyError) as caught:
        create_engine_config(EngineArgs())
    assert caught.value.__notes__ == ["raised in hook check_and_update_config of ChangedPlatform"]


def test_a_worker_class_left_open_is_an_error_that_names_the_hook(use_platform: Use) -> None:
    """`auto` never reaches a worker."""
    use_platform(check_and_update_config=lambda _cls, _config: None)
    with pytest.raises(
        ConfigError, match=r"worker_cls = 'auto'.*hook check_and_update_config of ChangedPlatform"
    ):
        create_engine_config(EngineArgs())


def test_running_the_hooks_again_changes_nothing(use_platform: Use) -> None:
    """The engine core runs them on the config that they have changed already."""
    platform = use_platform()
    config = create_engine_config(EngineArgs())
    before = snapshot(config)
    run_config_hooks(config, platform)
    assert snapshot(config) == before


def test_hooks_bear_a_config_without_optional_parts(use_platform: Use) -> None:
    """Without a model and without extra options the hooks still run."""
    platform = use_platform()
    config = EngineConfig(additional_config=None)
    run_config_hooks(config, platform)
    assert config.parallel_config.worker_cls != "auto"


def test_what_the_user_said_reaches_the_hooks(use_platform: Use) -> None:
    """Worker class, block size, options for the platform: hooks see them and they survive."""
    seen: list[EngineConfig] = []
    use_platform(apply_config_platform_defaults=lambda _cls, config: seen.append(copy.deepcopy(config)))
    args = EngineArgs(
        worker_cls="pkg.Mine",
        block_size=32,
        additional_config={"probe": 1},
        enable_lora=False,
        dtype="bfloat16",
    )
    config = create_engine_config(args)
    assert seen[0].additional_config == {"probe": 1}
    for one in (seen[0], config):
        assert one.parallel_config.worker_cls == "pkg.Mine"
        assert one.cache_config.block_size == 32
        assert one.cache_config.user_specified_block_size
    assert config.model_config is not None
    assert config.model_config.dtype is torch.bfloat16
    assert config.device_config.device_type == "cpu"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"dtype": "float3"}, "model_config.dtype = 'float3'"),
        ({"kv_cache_dtype": "float3"}, "cache_config.cache_dtype = 'float3'"),
        ({"attention_backend": "NO_SUCH"}, "attention_backend = 'NO_SUCH': expected one of TORCH_SDPA"),
        ({"cudagraph_mode": "SOME"}, "cudagraph_mode = 'SOME'"),
        ({"max_model_len": "long"}, "model_config.max_model_len = 'long'"),
        ({"custom_ops": "all"}, "compilation_config.custom_ops = 'all'"),
        ({"additional_config": [1]}, "additional_config = [1]"),
        ({"block_size": 0}, "cache_config.block_size = 0"),
        ({"num_attention_heads": 3}, "model_config.num_kv_heads = 2"),
        ({"executor": "thread"}, "executor = 'thread': expected one of in-process"),
    ],
)
def test_wrong_arguments_are_config_errors_with_their_name(
    use_platform: Use, args: dict[str, Any], text: str
) -> None:
    """What the user got wrong is one line that starts with the field."""
    use_platform()
    with pytest.raises(ConfigError) as caught:
        create_engine_config(EngineArgs(**args))
    assert str(caught.value).startswith(text)


def test_two_configs_of_the_same_arguments_are_independent(use_platform: Use) -> None:
    """What a hook changes in one config is not in the other, nor in the arguments."""

    def changes(_cls: type, config: EngineConfig) -> None:
        config.additional_config["probe"].append(1)  # type: ignore[index]

    use_platform(apply_config_platform_defaults=changes)
    args = EngineArgs(additional_config={"probe": []})
    one, other = create_engine_config(args), create_engine_config(args)
    assert one.additional_config == other.additional_config == {"probe": [1]}
    assert args.additional_config == {"probe": []}


def test_the_platforms_first_dtype_is_the_default_and_others_are_checked(use_platform: Use) -> None:
    """`auto` takes the first; an unsupported one is the platform's own refusal."""
    platform = use_platform()
    config = create_engine_config(EngineArgs())
    assert config.model_config is not None
    assert config.model_config.dtype is platform.supported_dtypes[0]

    def refuses(_cls: type, dtype: torch.dtype) -> None:
        raise ValueError(f"no {dtype} here")

    use_platform(check_if_supports_dtype=refuses)
    with pytest.raises(ValueError, match="no torch.float16 here"):
        create_engine_config(EngineArgs(dtype="float16"))

    def declines(_cls: type, dtype: torch.dtype) -> None:
        raise NotSupported("check_if_supports_dtype", "P", "nothing")

    use_platform(check_if_supports_dtype=declines)
    create_engine_config(EngineArgs(dtype="float16"))


@pytest.mark.parametrize("listed", [["float32"], [], None])
def test_a_list_of_dtypes_that_is_none_is_told_with_the_platform(use_platform: Use, listed: object) -> None:
    """Names instead of dtypes, or nothing, give no default."""
    use_platform(supported_dtypes=listed)
    with pytest.raises(ConfigError, match=r"model_config\.dtype = 'auto': ChangedPlatform lists"):
        create_engine_config(EngineArgs())


def test_the_longest_sequence_is_the_platforms_answer(use_platform: Use) -> None:
    """A platform may allow less than the user asks for."""
    use_platform(check_max_model_len=lambda _cls, length: min(length, 100))
    config = create_engine_config(EngineArgs(max_model_len=200))
    assert config.model_config is not None
    assert config.model_config.max_model_len == config.scheduler_config.max_model_len == 100


@pytest.mark.parametrize("answer", [None, 0, -1, 1.5, True])
def test_a_length_that_is_none_names_the_hook(use_platform: Use, answer: object) -> None:
    """A forgotten return of the hook is told as such."""
    use_platform(check_max_model_len=lambda _cls, _length: answer)
    with pytest.raises(ConfigError, match="hook check_max_model_len of ChangedPlatform made"):
        create_engine_config(EngineArgs())


def test_a_priority_that_is_none_names_the_hook(use_platform: Use) -> None:
    """The answer must be the config of priorities."""
    use_platform(get_default_ir_op_priority=lambda _cls, _config: None)
    with pytest.raises(ConfigError, match="got None .*hook get_default_ir_op_priority of ChangedPlatform"):
        create_engine_config(EngineArgs())


def test_a_hook_that_fails_before_there_is_a_config_is_named(use_platform: Use) -> None:
    """The early registration hook gets a note too."""

    def fails(_cls: type, parser: object = None) -> None:
        raise RuntimeError("seeded")

    use_platform(pre_register_and_update=fails)
    with pytest.raises(RuntimeError, match="seeded") as caught:
        create_engine_config(EngineArgs())
    assert caught.value.__notes__ == ["raised in hook pre_register_and_update of ChangedPlatform"]


def test_a_device_without_hybrid_caches_disables_their_manager(use_platform: Use) -> None:
    """The platform's no is in the scheduler's part."""
    use_platform(support_hybrid_kv_cache=lambda _cls: False)
    assert create_engine_config(EngineArgs()).scheduler_config.disable_hybrid_kv_cache_manager is True


def test_graphs_and_compilation_are_settled_before_the_check(
    use_platform: Use, caplog: pytest.LogCaptureFixture
) -> None:
    """Graphs that the platform cannot do are off with a warning; its compile backend is filled in."""
    use_platform(get_compile_backend=lambda _cls: "eager", support_static_graph_mode=lambda _cls: False)
    with caplog.at_level(logging.WARNING):
        config = create_engine_config(EngineArgs(cudagraph_mode="FULL", compilation_mode="VLLM_COMPILE"))
    assert config.compilation_config.cudagraph_mode is CUDAGraphMode.NONE
    assert "static graphs are not supported on cpu" in caplog.text
    assert config.compilation_config.mode is CompilationMode.VLLM_COMPILE
    assert config.compilation_config.backend == "eager"


def test_a_device_that_does_not_tell_its_memory_gets_the_small_default(use_platform: Use) -> None:
    """Any failure of the query is tolerated; much memory gives larger steps."""

    def fails(_cls: type, device_id: int = 0) -> int:
        raise RuntimeError("no driver")

    assert default_batched_tokens(use_platform(get_device_total_memory=fails)) == 2048
    assert default_batched_tokens(use_platform(get_device_total_memory=lambda _cls, _id=0: None)) == 2048
    large = use_platform(get_device_total_memory=lambda _cls, _id=0: 80 << 30)
    assert default_batched_tokens(large) == 8192
    small = use_platform(get_device_total_memory=lambda _cls, _id=0: 16 << 30)
    assert default_batched_tokens(small) == 2048


def test_a_priority_of_the_platform_follows_the_users(use_platform: Use) -> None:
    """The kernel config ends up with both, and completing it again adds nothing."""
    platform = use_platform(
        get_default_ir_op_priority=lambda _cls, _c: IrOpPriorityConfig.with_default(["vendor"])
    )
    config = EngineConfig()
    config.kernel_config.ir_op_priority.rms_norm = ["mine"]
    for _ in range(2):
        run_config_hooks(config, platform)
        assert config.kernel_config.ir_op_priority.rms_norm == ["mine", "vendor"]
