"""Facts about quantization."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from platform_abc.components.quantization import (
    register_quantization_config,
    unregister_quantization_config,
)
from platform_abc.types import DeviceCapability
from reference_engine import quantization
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
