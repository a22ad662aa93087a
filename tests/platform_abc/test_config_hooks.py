"""The defaults of the ConfigHooks group."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from platform_abc import NotSupported
from tests.platform_abc.contract_platforms import Complete


@pytest.mark.parametrize(
    ("hook", "arguments"),
    [
        ("log_warnings", ()),
        ("pre_register_and_update", ()),
        ("pre_register_and_update", (object(),)),
        ("apply_config_platform_defaults", (object(),)),
        ("register_custom_kv_cache_specs", (object(),)),
        ("verify_model_arch", ("LlamaForCausalLM",)),
        ("validate_request", (object(), object())),
    ],
)
def test_hooks_that_do_nothing_by_default(hook: str, arguments: tuple[object, ...]) -> None:
    """They return None and touch nothing that they are given."""
    assert getattr(Complete(), hook)(*arguments) is None


def test_limits_are_what_the_engine_asked_for() -> None:
    """By default the device sets no limit of its own."""
    for tokens in (1, 4096, 10_000_000):
        assert Complete().get_max_output_tokens(tokens) == sys.maxsize
        assert Complete.check_max_model_len(tokens) == tokens


def test_an_empty_list_of_quantization_methods_allows_all() -> None:
    """The default refuses nothing."""
    assert Complete.supported_quantization == []
    refused: list[str] = []
    for method in ("awq", "", "anything"):
        try:
            Complete.verify_quantization(method)
        except ValueError as error:
            refused.append(str(error))
    assert refused == []


def test_a_quantization_method_that_is_not_listed_is_refused_by_name() -> None:
    """The error names the method, the device and what is supported."""

    class Quantized(Complete):
        supported_quantization = ["fp8", "awq"]

    Quantized.verify_quantization("awq")
    with pytest.raises(ValueError, match=r"'gptq' is not supported on dummy; supported: fp8, awq"):
        Quantized.verify_quantization("gptq")


@pytest.mark.parametrize(
    ("hook", "arguments"),
    [("check_if_supports_dtype", (object(),)), ("check_runner_kv_caches_multi_layer", ())],
)
def test_checks_that_only_a_platform_can_do_are_not_supported(
    hook: str, arguments: tuple[object, ...]
) -> None:
    """They name the member and the platform."""
    with pytest.raises(NotSupported, match=f"Complete does not support {hook}"):
        getattr(Complete, hook)(*arguments)


def test_native_implementations_come_first_for_every_ir_op() -> None:
    """An op that the platform does not rank runs the engine's own implementation."""
    priorities = Complete.get_default_ir_op_priority(object())
    assert set(map(tuple, priorities.by_op().values())) == {("native",)}


def test_unknown_variables_are_refused_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable is an error if the engine wants that."""
    monkeypatch.setenv("PLATFORM_ABC_PLUGIN", "dummy")
    Complete.validate_environ(False)
    with pytest.raises(ValueError, match="PLATFORM_ABC_PLUGIN"):
        Complete.validate_environ(True)


def test_the_block_size_is_left_alone_without_a_model() -> None:
    """The hook runs in tests of engines too, where no model is loaded."""
    config = SimpleNamespace(model_config=None, cache_config=SimpleNamespace(block_size=16))
    Complete.update_block_size_for_backend(config)
    assert config.cache_config.block_size == 16
