"""Facts about quantization."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from platform_abc.components.quantization import (
    register_quantization_config,
    unregister_quantization_config,
)
from platform_abc.config import EngineConfig, QuantizationConfig
from platform_abc.errors import ConfigError
from platform_abc.requests import SamplingParams
from platform_abc.types import DeviceCapability
from reference_engine.args import EngineArgs, add_cli_args
from reference_engine.engine import Engine
from reference_model import quantization
from tests.reference_engine.components import Rounded

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"


@pytest.fixture
def rounded() -> Iterator[None]:
    register_quantization_config("rounded")(Rounded)
    yield
    unregister_quantization_config("rounded")


def test_a_method_must_be_registered_listed_and_able(use_platform: Use, rounded: None) -> None:
    """Unknown name, a platform that does not list it, a device that is too old: each says so."""
    platform = use_platform(supported_quantization=[])
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
    old = use_platform(
        supported_quantization=[], get_device_capability=lambda _cls, device_id=0: DeviceCapability(8, 0)
    )
    with pytest.raises(ValueError, match=r"needs a device of capability 90"):
        quantization.resolve_quantization("rounded", old)
    new = use_platform(
        supported_quantization=[], get_device_capability=lambda _cls, device_id=0: DeviceCapability(9, 0)
    )
    assert quantization.resolve_quantization("rounded", new) is Rounded


def test_eight_bits_are_within_half_a_step_of_the_weight() -> None:
    """One scale an output; a row of zeros stays one; the product is that of what is stored."""
    method = quantization.Int8WeightOnly()
    weight = torch.randn(6, 32) * torch.tensor([1e-6, 1.0, 100.0, 0.0, 3.0, 7.0]).unsqueeze(1)
    stored = method.quantize(weight)
    assert stored["weight"].dtype is torch.int8
    back = stored["weight"].double() * stored["scale"].double().unsqueeze(1)
    assert bool(((back - weight).abs() <= stored["scale"].unsqueeze(1) * 0.5001).all())
    assert stored["weight"].abs().amax(1).tolist() == [127, 127, 127, 0, 127, 127]
    x, bias = torch.randn(3, 32), torch.randn(6)
    expected = x.double() @ back.t() + bias
    for dtype, error in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        found = method.apply(stored, x.to(dtype), bias.to(dtype))
        assert found.dtype is dtype
        assert torch.allclose(
            found.double(), expected, rtol=error * 2, atol=error * float(expected.abs().max())
        )


def test_the_engines_own_method_runs_where_the_platform_lists_it(use_platform: Use) -> None:
    """The plain CPU platform does; another list refuses it, in the front end."""
    use_platform()
    prompts, params = [[1, 2, 3], [4]], SamplingParams(max_tokens=4)
    with Engine(EngineArgs(quantization="int8_weight_only")) as engine:
        assert all(len(result.tokens) == 4 for result in engine.generate(prompts, params))
    use_platform(supported_quantization=["fp8"])
    with pytest.raises(ValueError, match="int8_weight_only"):
        Engine(EngineArgs(quantization="int8_weight_only"))


def test_a_plugin_registers_a_method_before_the_command_line_is_read(use_platform: Use) -> None:
    """In `pre_register_and_update`, which runs twice in the front end; the model then uses it."""
    calls: list[object] = []

    def register(_cls: type, parser: object = None) -> None:
        calls.append(parser)
        register_quantization_config("rounded")(Rounded)

    use_platform(pre_register_and_update=register, supported_quantization=["rounded"])
    try:
        args = EngineArgs.from_cli_args(
            add_cli_args(argparse.ArgumentParser()).parse_args(
                ["--quantization", "rounded", "--dtype", "float32"]
            )
        )
        with Engine(args) as engine:
            assert engine.generate([[1]], SamplingParams(max_tokens=2))[0].tokens
    finally:
        unregister_quantization_config("rounded")
    assert len(calls) == 2


def test_a_method_that_does_not_compute_in_the_models_dtype_is_refused(
    use_platform: Use, rounded: None
) -> None:
    """Before the first weight."""
    use_platform()
    config = EngineConfig(quant_config=QuantizationConfig(quant_method="rounded"))
    assert isinstance(quantization.make_method(config, torch.float32), Rounded)
    assert quantization.make_method(EngineConfig(), torch.float32) is None
    with pytest.raises(ConfigError, match="computes in torch.float32, and the model's is torch.bfloat16"):
        quantization.make_method(config, torch.bfloat16)
