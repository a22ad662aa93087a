"""Facts about the registry of quantization methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from platform_abc.components.quantization import (
    QuantizationMethod,
    get_quantization_method,
    quantization_methods,
    register_quantization_config,
    unregister_quantization_config,
)


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    unregister_quantization_config("test-quant")


def make() -> type[QuantizationMethod]:
    class Method(QuantizationMethod):
        @classmethod
        def get_name(cls) -> str:
            return "test-quant"

        @classmethod
        def get_supported_act_dtypes(cls) -> Sequence[Any]:
            return ()

        def quantize(self, weight: Any) -> Mapping[str, Any]:
            return {"weight": weight}

        def apply(self, stored: Mapping[str, Any], x: Any, bias: Any = None) -> Any:
            return x

    return Method


def test_a_registered_method_is_found_by_name() -> None:
    """The decorator returns the class itself."""
    method = make()
    assert register_quantization_config("test-quant")(method) is method
    assert get_quantization_method("test-quant") is method
    assert "test-quant" in quantization_methods()
    assert method({"bits": 4}).options == {"bits": 4}
    assert method.get_min_capability() == -1


def test_registering_twice_is_harmless_also_from_inside_a_hook() -> None:
    """A class made anew in each call of the hook is the same class."""
    register_quantization_config("test-quant")(make())
    again = make()
    register_quantization_config("test-quant")(again)
    assert get_quantization_method("test-quant") is again


def test_a_name_is_not_taken_over_by_another_class() -> None:
    """Two different classes of one name are an error that names the first."""
    register_quantization_config("test-quant")(make())

    class Other(make()):  # type: ignore[misc]
        pass

    with pytest.raises(ValueError, match="is already .*Method"):
        register_quantization_config("test-quant")(Other)


def test_what_is_no_method_is_refused() -> None:
    """An unknown name lists those that there are; a plain class is no method."""
    with pytest.raises(ValueError, match="no quantization method 'none-such'"):
        get_quantization_method("none-such")
    with pytest.raises(ValueError, match="derives from QuantizationMethod"):
        register_quantization_config("test-quant")(int)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="non-empty"):
        register_quantization_config(" ")
    with pytest.raises(ValueError, match=r'write @register_quantization_config\("name"\) above'):
        register_quantization_config(make())  # type: ignore[arg-type]
