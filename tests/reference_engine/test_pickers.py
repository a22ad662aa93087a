"""Facts about the components that the engine looks up: each by its picker, each checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
import torch

from platform_abc.components import compile as passes
from platform_abc.components.kv_cache import AttentionSpec, DefaultKVCacheConfigBuilder, KVCacheSpec
from platform_abc.components.quantization import (
    QuantizationMethod,
    register_quantization_config,
    unregister_quantization_config,
)
from platform_abc.config import CompilationConfig, CompilationMode, CUDAGraphMode, EngineConfig, LoRAConfig
from platform_abc.errors import NotSupported
from platform_abc.types import DeviceCapability
from reference_engine import compilation, graphs, kv_cache, lora, parallel, quantization
from tests.reference_engine import components

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"
SPECS: Mapping[str, KVCacheSpec] = {
    f"layers.{index}.attention": AttentionSpec(block_size=16, num_kv_heads=1, head_size=8, dtype="float32")
    for index in range(2)
}


def named(name: str) -> Callable[..., str]:
    return lambda _cls, *_args: name


# --- KV cache


def test_the_cache_is_laid_out_by_the_platforms_builder_after_its_specs(use_platform: Use) -> None:
    """Custom specs are registered first, then the named builder builds."""
    seen: list[str] = []
    use_platform(
        register_custom_kv_cache_specs=lambda _cls, _config: seen.append("specs"),
        get_kv_cache_config_builder_cls=lambda _cls, _config: seen.append("builder") or f"{COMPONENTS}.FewBlocks",
    )
    built = kv_cache.make_kv_cache_config(EngineConfig(), SPECS, 1 << 20)
    assert built.num_blocks == 5
    assert seen == ["specs", "builder"]


def test_a_platform_made_before_the_builder_picker_gets_the_default() -> None:
    """The type is asked: an instance with a torch fallback would answer any name."""

    class First:
        def __getattr__(self, name: str) -> str:
            return "nonsense"

    first: Any = First()
    assert kv_cache.builder_class(first, EngineConfig()) is DefaultKVCacheConfigBuilder


def test_several_layers_of_one_index_need_the_platforms_consent(use_platform: Use) -> None:
    """An encoder and a decoder layer of one number share an index."""
    both = {**SPECS, "encoder.layers.1.attention": SPECS["layers.0.attention"]}
    use_platform()
    kv_cache.check_layer_indices(both)

    def declines(_cls: type) -> None:
        raise NotSupported("check_runner_kv_caches_multi_layer", "P", "use another model")

    use_platform(check_runner_kv_caches_multi_layer=declines)
    kv_cache.check_layer_indices(SPECS)
    with pytest.raises(NotSupported):
        kv_cache.check_layer_indices(both)


@pytest.mark.parametrize(
    ("picker", "call"),
    [
        ("get_kv_cache_config_builder_cls", lambda: kv_cache.make_kv_cache_config(EngineConfig(), SPECS, 1 << 20)),
        ("get_pass_manager_cls", lambda: compilation.install_passes(EngineConfig())),
        (
            "get_punica_wrapper",
            lambda: lora.make_punica_wrapper(EngineConfig(), LoRAConfig(), torch.device("cpu")),
        ),
        ("get_device_communicator_cls", lambda: parallel.make_communicator(*[None] * 4)),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("answer", ["collections.OrderedDict", f"{COMPONENTS}.NOT_A_CLASS"])
def test_a_component_of_the_wrong_base_is_refused_by_picker_and_base(
    use_platform: Use, picker: str, call: Callable[[], object], answer: str
) -> None:
    """The message names what was named, by which picker of whom, and the ABC."""
    use_platform(**{picker: named(answer)})
    with pytest.raises(ValueError, match=rf"{answer}, from {picker} of ChangedPlatform, does not\s+derive") as caught:
        call()
    assert "platform_abc.components." in str(caught.value)


# --- graphs and compilation


def config_with(mode: CUDAGraphMode) -> EngineConfig:
    return EngineConfig(compilation_config=CompilationConfig(cudagraph_mode=mode))


def test_a_step_is_wrapped_only_where_graphs_are_wanted_and_supported(use_platform: Use) -> None:
    """Otherwise the step itself comes back and the picker is not asked."""

    def step() -> int:
        return 3

    yes = {
        "support_static_graph_mode": lambda _cls: True,
        "get_static_graph_wrapper_cls": named(f"{COMPONENTS}.CountingWrapper"),
    }
    use_platform(**yes)
    assert graphs.wrap_in_graph(step, config_with(CUDAGraphMode.NONE)) is step
    assert graphs.wrap_in_graph(step, config_with(CUDAGraphMode.PIECEWISE)) is step
    platform = use_platform(**yes)
    platform.get_global_graph_pool = lambda: "pool"
    wrapped: Any = graphs.wrap_in_graph(step, config_with(CUDAGraphMode.FULL_AND_PIECEWISE))
    components.CountingWrapper.calls.clear()
    assert wrapped() == 3
    assert components.CountingWrapper.calls == ["FULL"]
    assert wrapped.options == {"graph_pool": "pool"}
    use_platform(support_static_graph_mode=lambda _cls: False)
    assert graphs.wrap_in_graph(step, config_with(CUDAGraphMode.FULL)) is step
    use_platform(**{**yes, "get_static_graph_wrapper_cls": named("collections.OrderedDict")})
    with pytest.raises(ValueError, match="get_static_graph_wrapper_cls of ChangedPlatform"):
        graphs.wrap_in_graph(step, config_with(CUDAGraphMode.FULL))


def test_the_pass_manager_is_put_under_the_platforms_key(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configured, and where the compile backend looks for it."""
    monkeypatch.setattr(passes, "_registered", {"nothing": lambda _config: components.Nothing()})
    use_platform(get_pass_manager_cls=named(f"{COMPONENTS}.CountingPasses"))
    config = EngineConfig()
    manager = compilation.install_passes(config)
    assert config.compilation_config.inductor_compile_config == {"post_grad_custom_post_pass": manager}
    assert [type(one) for one in manager.passes] == [components.Nothing]


def test_a_step_is_compiled_by_the_settled_backend(use_platform: Use) -> None:
    """Without compilation the step is left alone."""

    def step(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    use_platform()
    assert compilation.compile_step(step, EngineConfig()) is step
    config = EngineConfig(
        compilation_config=CompilationConfig(mode=CompilationMode.DYNAMO_TRACE_ONCE, backend="eager")
    )
    compiled = compilation.compile_step(step, config)
    assert compiled is not step
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert "post_grad_custom_post_pass" in config.compilation_config.inductor_compile_config


# --- quantization


class Rounded(QuantizationMethod):
    """Weights rounded to eighths."""

    @classmethod
    def get_name(cls) -> str:
        return "rounded"

    @classmethod
    def get_supported_act_dtypes(cls) -> list[torch.dtype]:
        return [torch.float32]

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return {"eighths": (weight * 8).round().to(torch.int16)}

    def apply(
        self, stored: Mapping[str, torch.Tensor], x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        return torch.nn.functional.linear(x, stored["eighths"].to(x.dtype) / 8, bias)


@pytest.fixture
def rounded() -> Iterator[None]:
    register_quantization_config("rounded")(Rounded)
    yield
    unregister_quantization_config("rounded")


def test_a_method_must_be_registered_listed_and_able(use_platform: Use, rounded: None) -> None:
    """Unknown name, a platform that does not list it, a device that is too old: each says so."""
    platform = use_platform()
    assert quantization.resolve_quantization("rounded", platform) is Rounded
    with pytest.raises(ValueError, match="no quantization method 'none-such'"):
        quantization.resolve_quantization("none-such", platform)
    with pytest.raises(ValueError, match="rounded"):
        quantization.resolve_quantization("rounded", use_platform(supported_quantization=["awq"]))


def test_a_method_may_need_a_newer_device(
    use_platform: Use, rounded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capability that is needed and the one that there is are in the message."""
    monkeypatch.setattr(Rounded, "get_min_capability", classmethod(lambda _cls: 90))
    old = use_platform(get_device_capability=lambda _cls, device_id=0: DeviceCapability(8, 0))
    with pytest.raises(ValueError, match=r"needs a device of capability 90"):
        quantization.resolve_quantization("rounded", old)
    new = use_platform(get_device_capability=lambda _cls, device_id=0: DeviceCapability(9, 0))
    assert quantization.resolve_quantization("rounded", new) is Rounded


# --- parallel


def test_a_group_of_one_moves_nothing_and_asks_for_no_communicator(use_platform: Use) -> None:
    """Results are the inputs themselves."""

    def fails(_cls: type) -> str:
        raise AssertionError

    use_platform(get_device_communicator_cls=fails)
    store = torch.distributed.HashStore()
    group = use_platform().stateless_init_device_torch_dist_pg(
        "gloo", torch.distributed.PrefixStore("g", store), 0, 1, timedelta(seconds=10)
    )
    use_platform(get_device_communicator_cls=fails)
    made = parallel.GroupCoordinator(group, group, torch.device("cpu"), "tp")
    tensor = torch.ones(2)
    assert made.all_reduce(tensor) is tensor
    assert made.gather_logits(tensor) is tensor
    made_by_name = use_platform() and parallel.make_communicator(group, group, torch.device("cpu"), "tp")
    assert made_by_name.world_size == 1


def test_larger_groups_go_through_the_communicator(use_platform: Use) -> None:
    """Whether logits are gathered everywhere is the platform's answer."""

    class Two:
        def size(self) -> int:
            return 2

        def rank(self) -> int:
            return 1

    class Comm:
        def all_reduce(self, tensor: torch.Tensor) -> str:
            return "reduced"

        def all_gather(self, tensor: torch.Tensor, dim: int) -> str:
            return f"gathered {dim}"

        def gather(self, tensor: torch.Tensor, dst: int, dim: int) -> str:
            return f"gathered {dim} to {dst}"

    two: Any = Two()
    for everywhere, expected in ((True, "gathered -1"), (False, "gathered -1 to 0")):
        use_platform(use_all_gather=lambda _cls, answer=everywhere: answer)
        made = parallel.GroupCoordinator(two, two, torch.device("cpu"), "tp")
        made.communicator = Comm()  # type: ignore[assignment]
        assert made.all_reduce(torch.ones(1)) == "reduced"
        assert made.gather_logits(torch.ones(1)) == expected
