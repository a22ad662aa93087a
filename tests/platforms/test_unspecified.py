"""Facts of `platforms.unspecified`: it exists, and everything that needs a device says what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from platform_abc.config import AttentionSelectorConfig, EngineConfig
from platform_abc.errors import ConfigError, DeviceUnavailable, NotSupported
from platforms.unspecified import REMEDY, UnspecifiedPlatform

SELECTOR: Any = AttentionSelectorConfig(head_size=32, dtype=None, kv_cache_dtype=None, block_size=None)  # type: ignore[arg-type]


def test_it_can_be_made_named_and_pickled() -> None:
    """Detection without a device still gives an object; its device type is empty."""
    platform = UnspecifiedPlatform()
    assert platform.is_unspecified()
    assert platform.device_type == ""
    assert platform.device_name == "unspecified"
    assert isinstance(pickle.loads(pickle.dumps(platform)), UnspecifiedPlatform)


def test_it_is_no_other_kind() -> None:
    """Every other predicate says no."""
    platform = UnspecifiedPlatform()
    assert not any(
        (
            platform.is_cpu(),
            platform.is_cuda(),
            platform.is_rocm(),
            platform.is_xpu(),
            platform.is_tpu(),
            platform.is_out_of_tree(),
            platform.is_cuda_alike(),
        )
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda p: p.check_and_update_config(EngineConfig()), ConfigError),
        (lambda p: p.get_attn_backend_cls(None, attn_selector_config=SELECTOR, num_heads=None), ConfigError),
        (lambda p: p.get_device_name(), DeviceUnavailable),
        (lambda p: p.get_device_total_memory(), DeviceUnavailable),
        (lambda p: p.set_device(None), DeviceUnavailable),
        (lambda p: p.manual_seed_all(0), DeviceUnavailable),
    ],
)
def test_what_needs_a_device_says_how_to_get_one(
    call: Callable[[UnspecifiedPlatform], Any], error: type[Exception]
) -> None:
    """The text names the command that explains detection, and the CPU as a way out."""
    with pytest.raises(error) as caught:
        call(UnspecifiedPlatform())
    assert REMEDY in str(caught.value)
    assert "python -m platform_abc" in REMEDY


def test_device_queries_are_declared_not_supported() -> None:
    """Memory, ids and groups raise the contract's one spelling of "no"."""
    for call in (
        UnspecifiedPlatform.get_current_memory_usage,
        UnspecifiedPlatform.num_compute_units,
        UnspecifiedPlatform.get_device_uuid,
    ):
        with pytest.raises(NotSupported):
            call()
