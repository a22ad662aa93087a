"""Facts about the configuration: what is refused, when, and how changes are shown."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from threading import Lock
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from platform_abc.config import (
    ABSENT,
    AttentionConfig,
    AttentionSelectorConfig,
    CacheConfig,
    CompilationConfig,
    CompilationMode,
    CUDAGraphMode,
    EngineConfig,
    IrOpPriorityConfig,
    KVTransferConfig,
    LoRAConfig,
    ModelConfig,
    ParallelConfig,
    QuantizationConfig,
    SchedulerConfig,
    SpeculativeConfig,
    changes_between,
    diff,
    get_current_config,
    snapshot,
    unknown_fields,
    use_config,
)
from platform_abc.errors import ConfigError


def full_config() -> EngineConfig:
    return EngineConfig(
        model_config=ModelConfig(hf_config=SimpleNamespace(model_type="llama", rope={"base": 1e4})),
        lora_config=LoRAConfig(),
        quant_config=QuantizationConfig(quant_method="int8"),
        speculative_config=SpeculativeConfig(),
        kv_transfer_config=KVTransferConfig(kv_connector="Nixl"),
        additional_config={"probe": 1},
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("parallel_config.worker_cls", 3),
        ("parallel_config.worker_cls", ""),
        ("parallel_config.tensor_parallel_size", 0),
        ("parallel_config.tensor_parallel_size", True),
        ("parallel_config.distributed_executor_backend", "thread"),
        ("parallel_config.assigned_physical_gpu_ids", [0, -1]),
        ("cache_config.block_size", None),
        ("cache_config.block_size", -16),
        ("cache_config.block_size", 16.0),
        ("cache_config.block_size", "16"),
        ("cache_config.cache_dtype", "float3"),
        ("cache_config.gpu_memory_utilization", 0.0),
        ("cache_config.gpu_memory_utilization", 1.5),
        ("cache_config.gpu_memory_utilization", float("nan")),
        ("cache_config.user_specified_block_size", 1),
        ("scheduler_config.max_num_seqs", 0),
        ("scheduler_config.disable_chunked_mm_input", "yes"),
        ("compilation_config.custom_ops", "all"),
        ("compilation_config.custom_ops", ["all", ""]),
        ("compilation_config.mode", 3),
        ("compilation_config.cudagraph_mode", "FULL"),
        ("compilation_config.cudagraph_capture_sizes", [0]),
        ("attention_config.backend", "TORCH_SDPA"),
        ("model_config.dtype", "float3"),
        ("model_config.max_model_len", 0),
        ("model_config.hf_config", {"model_type": "llama"}),
        ("lora_config.max_loras", 0),
        ("additional_config", {1: 2}),
        ("additional_config", []),
        ("model_config", "toy"),
        ("cache_config", None),
        ("device_config.device", ""),
        ("device_config.device_type", None),
    ],
)
def test_a_wrong_value_is_refused_on_assignment_with_path_value_and_expectation(
    path: str, value: object
) -> None:
    """An assignment that makes no sense raises at once and leaves the old value."""
    config = full_config()
    *parts, name = path.split(".")
    owner = getattr(config, parts[0]) if parts else config
    before = getattr(owner, name)
    with pytest.raises(ConfigError) as caught:
        setattr(owner, name, value)
    assert str(caught.value).startswith(f"{path} = {value!r}: expected ")
    assert getattr(owner, name) is before


def test_every_declared_field_is_validated() -> None:
    """No field of any part takes an arbitrary object."""
    config = full_config()
    for part in [config, *config.parts().values()]:
        for field in attrs.fields(type(part)):
            with pytest.raises(ConfigError, match=rf"(^|\.){field.name} = "):
                setattr(part, field.name, object())


def test_defaults_are_valid_as_a_whole() -> None:
    """The plain config and the one with every optional part pass the whole check."""
    EngineConfig().validate()
    full_config().validate()


def test_what_was_appended_in_place_is_found_by_the_whole_check() -> None:
    """A list changed in place escapes assignment, and the whole check names field and writer."""
    config = EngineConfig()
    config.compilation_config.custom_ops.append(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        config.validate(written_by="hook check_and_update_config of P")
    assert str(caught.value) == (
        "compilation_config.custom_ops = [3]: expected a list of non-empty names of ops; "
        "written by hook check_and_update_config of P"
    )


def test_what_was_written_past_the_setters_is_found_by_the_whole_check() -> None:
    """Writing into the instance's dict escapes assignment, not the whole check; nor does deleting."""
    config = EngineConfig()
    vars(config.parallel_config)["worker_cls"] = None
    with pytest.raises(ConfigError, match=r"parallel_config\.worker_cls = None"):
        config.validate()
    config = EngineConfig()
    del config.cache_config.block_size
    with pytest.raises(ConfigError, match=r"cache_config\.block_size was deleted"):
        config.validate()
    config = EngineConfig()
    vars(config)["cache_config"] = SimpleNamespace(block_size=16)
    with pytest.raises(ConfigError, match="cache_config = "):
        config.validate()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (EngineConfig(parallel_config=ParallelConfig(rank=1)), "parallel_config.rank = 1"),
        (
            EngineConfig(parallel_config=ParallelConfig(assigned_physical_gpu_ids=[1, 1])),
            "parallel_config.assigned_physical_gpu_ids = [1, 1]",
        ),
        (
            EngineConfig(scheduler_config=SchedulerConfig(max_num_batched_tokens=4, max_num_seqs=8)),
            "scheduler_config.max_num_batched_tokens = 4",
        ),
        (
            EngineConfig(
                model_config=ModelConfig(num_attention_heads=4),
                parallel_config=ParallelConfig(tensor_parallel_size=3),
            ),
            "parallel_config.tensor_parallel_size = 3",
        ),
        (
            EngineConfig(model_config=ModelConfig(num_attention_heads=4, num_kv_heads=3)),
            "model_config.num_kv_heads = 3",
        ),
        (
            EngineConfig(model_config=ModelConfig(num_attention_heads=3, hidden_size=64)),
            "model_config.hidden_size = 64",
        ),
        (
            EngineConfig(model_config=ModelConfig(layer_kinds=["mamba"], num_layers=2)),
            "model_config.layer_kinds has 1 entries",
        ),
        (
            EngineConfig(
                model_config=ModelConfig(num_attention_heads=6, num_kv_heads=3, hidden_size=60),
                parallel_config=ParallelConfig(tensor_parallel_size=2),
            ),
            "parallel_config.tensor_parallel_size = 2",
        ),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(config: EngineConfig, text: str) -> None:
    """Each rule over several fields names the field to change."""
    with pytest.raises(ConfigError) as caught:
        config.validate()
    assert str(caught.value).startswith(text)


def test_a_config_survives_pickle_and_deepcopy_exactly() -> None:
    """Both give an equal config that shares no part."""
    config = full_config()
    config.cache_config.vendor_extra = 7  # type: ignore[attr-defined]
    for other in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert other == config
        assert snapshot(other) == snapshot(config)
        assert other.cache_config is not config.cache_config
        other.validate()


def test_configs_do_not_share_mutable_defaults() -> None:
    """Changing one config leaves another alone."""
    one, other = EngineConfig(), EngineConfig()
    one.compilation_config.custom_ops.append("all")
    one.additional_config["x"] = 1  # type: ignore[index]
    assert changes_between(EngineConfig(), other) == []


@pytest.mark.parametrize(
    ("given", "asked"), [({}, False), ({"block_size": None}, False), ({"block_size": 16}, True)]
)
def test_a_block_size_counts_as_the_users_wish_only_if_given(
    given: dict[str, int | None], asked: bool
) -> None:
    """The default 16 and a given 16 are told apart."""
    cache = CacheConfig(**given)
    assert cache.block_size == 16
    assert type(cache.block_size) is int
    assert cache.user_specified_block_size is asked
    assert pickle.loads(pickle.dumps(cache)).user_specified_block_size is asked


def test_changes_show_as_path_before_and_after() -> None:
    """A change of a field, of a list in place, of a dict, and of a vendor's own value all show."""
    config = full_config()
    before = snapshot(config)
    config.parallel_config.worker_cls = "pkg.Worker"
    config.compilation_config.custom_ops.append("+rms_norm")
    config.additional_config["probe"] = {"deep": [1]}  # type: ignore[index]
    config.cache_config.vendor_extra = 7  # type: ignore[attr-defined]
    config.lora_config = None
    texts = [str(change) for change in diff(before, snapshot(config))]
    assert "parallel_config.worker_cls: auto → pkg.Worker" in texts
    assert "compilation_config.custom_ops: [] → [+rms_norm]" in texts
    assert "additional_config.probe.deep: (absent) → [1]" in texts
    assert "cache_config.vendor_extra: (absent) → 7" in texts
    assert f"lora_config.max_loras: 1 → {ABSENT}" in texts
    assert "lora_config: (absent) → None" in texts


def test_snapshots_tell_true_from_one_and_forgive_a_nan() -> None:
    """`1` and `True` differ; a NaN equals itself."""
    config = EngineConfig(additional_config={"flag": 1, "nan": float("nan")})
    before = snapshot(config)
    assert diff(before, snapshot(copy.deepcopy(config))) == []
    config.additional_config["flag"] = True  # type: ignore[index]
    assert [str(change) for change in diff(before, snapshot(config))] == ["additional_config.flag: 1 → True"]


def test_a_snapshot_bears_values_that_point_to_themselves_or_cannot_be_shown() -> None:
    """A cycle and a broken repr do not stop a snapshot."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    config = EngineConfig(additional_config={"broken": Broken()})
    config.additional_config["me"] = config.additional_config  # type: ignore[index]
    flat = snapshot(config)
    assert flat["additional_config.me"] == "(itself)"
    assert "RuntimeError" in str(flat["additional_config.broken"])


def test_a_snapshot_bears_cycles_through_lists_deep_nests_and_hostile_values() -> None:
    """Whatever a user or a hook has put into the free options, a snapshot comes back and compares."""

    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("no")

    class Loud(str):
        def __repr__(self) -> str:
            raise RuntimeError("no")

    turn: list[Any] = [1]
    turn.append(turn)
    through: dict[str, Any] = {"list": []}
    through["list"].append(through)
    deep: dict[str, Any] = {}
    nest: list[Any] = []
    for _ in range(3000):
        deep, nest = {"in": deep}, [nest]
    options = {"turn": turn, "through": through, "deep": deep, "nest": nest}
    options |= {"hostile": Hostile(), "loud": Loud("x"), "keys": {Lock(): Loud("y")}}
    config = EngineConfig(additional_config=options)
    flat = snapshot(config)
    assert flat["additional_config.turn"] == (1, "(itself)")
    assert "RuntimeError" in str(flat["additional_config.hostile"])
    assert flat["additional_config.loud"] == "x"
    assert [path for path, value in flat.items() if "too deep" in str(value)]
    assert not list(diff(flat, snapshot(config)))
    again = EngineConfig(additional_config={**options, "keys": {Lock(): Loud("y")}})
    assert not list(changes_between(config, again))


def test_a_part_that_points_back_to_the_whole_is_checked_once() -> None:
    """A vendor's subclass of a part may know its config."""

    @attrs.define(slots=False, kw_only=True)
    class Owned(CacheConfig):
        owner: Any = None

    config = EngineConfig(cache_config=Owned(block_size=8))
    config.cache_config.owner = config  # type: ignore[attr-defined]
    config.validate()
    assert snapshot(config)["cache_config.owner"] == "(itself)"
    vars(config.cache_config)["block_size"] = 0
    with pytest.raises(ConfigError, match=r"cache_config\.block_size = 0"):
        config.validate()


def test_what_hangs_beside_the_fields_is_told_with_what_it_may_mean() -> None:
    """Dotted path, and fields of that part with a like name."""
    config = EngineConfig()
    assert unknown_fields(config) == {}
    vars(config)["seen"] = 1
    vars(config.compilation_config.pass_config)["fuse_norm_quants"] = True
    assert unknown_fields(config) == {
        "seen": "",
        "compilation_config.pass_config.fuse_norm_quants": "fuse_norm_quant",
    }


def test_a_refused_name_of_an_enumeration_lists_the_members() -> None:
    """A string where a member is wanted is told what to write."""
    with pytest.raises(ConfigError, match=r"cudagraph_mode = 'FULL': expected one of .*CUDAGraphMode\.FULL,"):
        EngineConfig().compilation_config.cudagraph_mode = "FULL"  # type: ignore[assignment]


def test_a_snapshot_is_the_same_for_equal_objects_at_other_addresses() -> None:
    """An address in a repr is not a change."""

    class Plain:
        pass

    def make() -> EngineConfig:
        return EngineConfig(
            additional_config={"x": Plain()},
            compilation_config=CompilationConfig(static_forward_context={"layers.0": Plain()}),
        )

    assert changes_between(make(), make()) == []
    assert snapshot(make())["compilation_config.static_forward_context"] == ("layers.0: Plain",)


def test_kv_heads_are_shared_out_and_never_less_than_one() -> None:
    """Heads are divided among ranks, copied where there are fewer, and one for latent attention."""
    model = ModelConfig(num_attention_heads=8, num_kv_heads=2)
    assert [model.get_num_kv_heads(ParallelConfig(tensor_parallel_size=n)) for n in (1, 2, 4)] == [2, 1, 1]
    assert ModelConfig(num_attention_heads=8).get_num_kv_heads(ParallelConfig()) == 8
    assert ModelConfig(use_mla=True).get_num_kv_heads(ParallelConfig()) == 1
    assert ModelConfig(hidden_size=96, num_attention_heads=3).get_head_size() == 32
    assert ModelConfig(head_size=48).get_head_size() == 48


def test_graph_modes_answer_for_decode_and_mixed_batches() -> None:
    """A combined mode gives each kind of batch its own."""
    mode = CUDAGraphMode.FULL_AND_PIECEWISE
    assert (mode.decode_mode(), mode.mixed_mode()) == (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE)
    assert mode.has_full_cudagraphs()
    assert mode.has_piecewise_cudagraphs()
    assert not CUDAGraphMode.PIECEWISE.has_full_cudagraphs()
    assert CUDAGraphMode.FULL_DECODE_ONLY.mixed_mode() is CUDAGraphMode.NONE
    assert CompilationMode.NONE < CompilationMode.VLLM_COMPILE


def test_ir_op_priorities_take_text_and_are_completed_by_defaults() -> None:
    """The user's choice comes first, the platform's follow without repetition."""
    asked = IrOpPriorityConfig(rms_norm="fast, native")  # type: ignore[arg-type]
    assert asked.rms_norm == ["fast", "native"]
    merged = asked.completed_by(IrOpPriorityConfig.with_default(["vendor", "native"]))
    assert merged.rms_norm == ["fast", "native", "vendor"]
    assert merged.fused_add_rms_norm == ["vendor", "native"]
    assert merged.completed_by(IrOpPriorityConfig.with_default(["vendor", "native"])) == merged
    with pytest.raises(ConfigError, match="repeated: native"):
        IrOpPriorityConfig(rms_norm=["native", "native"])
    with pytest.raises(TypeError, match="no such IR op: norm"):
        IrOpPriorityConfig.with_default([], norm=[])


def test_selector_configs_are_hashable_and_a_new_fact_has_a_default() -> None:
    """The selector caches by it, and only the first four fields must be given."""
    facts = AttentionSelectorConfig(64, "float32", "auto", None)  # type: ignore[arg-type]
    assert hash(facts) == hash(facts._replace())
    assert facts._asdict()["attn_type"] == "decoder"
    assert facts != facts._replace(use_mla=True)


def test_the_current_config_is_the_innermost_and_never_made_up() -> None:
    """Outside of a `with` there is none, and that is an error."""
    with pytest.raises(ConfigError, match="no current config"):
        get_current_config()
    outer, inner = EngineConfig(), EngineConfig(attention_config=AttentionConfig(use_non_causal=True))
    with use_config(outer):
        with use_config(inner):
            assert get_current_config() is inner
        assert get_current_config() is outer


def test_config_modules_import_no_torch() -> None:
    """The configuration and the components' ABCs load without torch."""
    code = (
        "import sys, platform_abc.config, platform_abc.requests, platform_abc.block_size, platform_abc.device_ids;"
        "from platform_abc.components import attention, communicator, compile, graph, kernels, kv_cache, lora;"
        "from platform_abc.components import quantization, worker;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_torch_values_are_recognised_without_importing_torch() -> None:
    """A torch dtype and a torch device are accepted, a class of the same name is not."""
    torch = pytest.importorskip("torch")
    model = ModelConfig(dtype=torch.float16)
    assert model.dtype is torch.float16
    config = EngineConfig(model_config=model)
    config.device_config.device = torch.device("cpu")
    assert snapshot(config)["model_config.dtype"] == "torch.float16"
    assert pickle.loads(pickle.dumps(config)).model_config.dtype is torch.float16
    dtype = type("dtype", (), {})
    with pytest.raises(ConfigError):
        model.dtype = dtype()
