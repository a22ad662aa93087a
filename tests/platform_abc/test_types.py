"""The plain values: platform kinds, processor kinds, device capabilities."""

from __future__ import annotations

import pickle

import pytest

from platform_abc import CpuArchEnum, DeviceCapability, PlatformEnum


def test_capabilities_compare_with_each_other_and_with_plain_tuples() -> None:
    """A later generation is greater, whatever the minor number."""
    assert DeviceCapability(9, 0) > DeviceCapability(8, 9)
    assert DeviceCapability(8, 9) >= (8, 0)
    assert DeviceCapability(12, 1) == (12, 1)


def test_capabilities_have_the_two_spellings_that_engines_use() -> None:
    """`9.0` in texts, `90` in kernel names."""
    assert DeviceCapability(9, 0).as_version_str() == "9.0"
    assert DeviceCapability(10, 3).to_int() == 103


@pytest.mark.parametrize("minor", [-1, 10, 42])
def test_a_minor_number_of_more_than_one_digit_has_no_integer_spelling(minor: int) -> None:
    """Otherwise 8.12 and 9.2 would be the same number."""
    with pytest.raises(ValueError, match=f"must be 0 to 9 to join both, got {minor}"):
        DeviceCapability(8, minor).to_int()


def test_values_survive_pickling() -> None:
    """Configs and reports carry them between processes."""
    for value in (PlatformEnum.OOT, CpuArchEnum.ARM, DeviceCapability(9, 0)):
        assert pickle.loads(pickle.dumps(value)) == value


def test_every_kind_of_platform_is_there() -> None:
    """The kinds are those that engines distinguish."""
    assert [kind.name for kind in PlatformEnum] == ["CUDA", "ROCM", "TPU", "XPU", "CPU", "OOT", "UNSPECIFIED"]
