"""Facts about the toy decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.components.kernels import IR_OPS
from platform_abc.config import CacheConfig, EngineConfig, ModelConfig
from platform_abc.errors import ConfigError
from reference_engine.ir_ops import rms_norm
from reference_engine.model import Linear, build_model
from tests.reference_engine.components import Rounded

Use = Callable[..., Any]
CPU = torch.device("cpu")


def config_of(**model: Any) -> EngineConfig:
    return EngineConfig(model_config=ModelConfig(**{"dtype": torch.float32, **model}))


def test_layers_enter_the_context_and_say_what_they_store(use_platform: Use) -> None:
    """Building again replaces them, so one config serves two models in turn."""
    use_platform()
    config = config_of(num_layers=3, num_attention_heads=4, num_kv_heads=2, hidden_size=64)
    for _ in range(2):
        model = build_model(config, CPU)
        assert list(config.compilation_config.static_forward_context) == list(model.layers())
    assert list(model.layers()) == [f"layers.{index}.attention" for index in range(3)]
    spec: Any = model.layers()["layers.1.attention"].get_kv_cache_spec(config)
    assert (spec.block_size, spec.num_kv_heads, spec.head_size, spec.dtype) == (16, 2, 16, torch.float32)
    assert torch.get_default_dtype() is torch.float32


def test_a_skipped_layer_stores_the_models_dtype(use_platform: Use) -> None:
    """And is padded to the page that alignment has found."""
    use_platform()
    config = config_of()
    config.cache_config = CacheConfig(
        cache_dtype="bfloat16",
        kv_cache_dtype_skip_layers=["layers.0.attention"],
        skip_page_size_padded=1 << 16,
    )
    model = build_model(config, CPU)
    specs: list[Any] = [layer.get_kv_cache_spec(config) for layer in model.layers().values()]
    assert [spec.cache_dtype for spec in specs] == ["auto", "bfloat16"]
    assert [spec.page_size_padded for spec in specs] == [1 << 16, None]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (EngineConfig(), "model_config = None"),
        (config_of(layer_kinds=["attention", "mamba"]), "attention layers only"),
        (config_of(dtype="auto"), "expected a torch.dtype"),
    ],
)
def test_what_is_not_a_toy_decoder_is_refused(use_platform: Use, config: EngineConfig, text: str) -> None:
    """By field."""
    use_platform()
    with pytest.raises(ConfigError, match=text):
        build_model(config, CPU)


def test_the_platform_may_refuse_the_architecture(use_platform: Use) -> None:
    """Before anything is built."""

    def refuses(_cls: type, model_arch: str) -> None:
        raise ValueError(f"no {model_arch} here")

    use_platform(verify_model_arch=refuses)
    config = config_of()
    with pytest.raises(ValueError, match="no ToyForCausalLM here"):
        build_model(config, CPU)
    assert config.compilation_config.static_forward_context == {}


def test_rms_norm_has_rows_of_mean_square_one_and_follows_the_priority() -> None:
    """The native op is right, and another implementation is used when it is put first."""
    x = torch.randn(5, 16, dtype=torch.bfloat16) * 7
    normed = rms_norm(x, torch.ones(16), 0.0)
    assert normed.dtype is torch.bfloat16
    assert torch.allclose(normed.float().pow(2).mean(-1), torch.ones(5), atol=2e-2)
    rms_norm.register_impl("test-zero")(_zero)
    with IR_OPS.ops["rms_norm"].with_priority(["test-zero"]):
        assert rms_norm(x, torch.ones(16), 0.0).abs().sum() == 0
    del rms_norm.impls["test-zero"]


def _zero(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return torch.zeros_like(x)


def test_a_quantized_layer_multiplies_what_was_stored() -> None:
    """The method's own product, close to the plain one."""
    weight, x = torch.randn(4, 8), torch.randn(3, 8)
    plain, quantized = Linear(weight, None)(x), Linear(weight, Rounded())(x)
    assert not torch.equal(plain, quantized)
    assert torch.allclose(plain, quantized, atol=8 * 4 / 16)
