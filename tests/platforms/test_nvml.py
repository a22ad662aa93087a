"""Facts of `platforms.nvml` beyond what the CUDA platform's tests show."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from platforms import nvml
from tests.platforms.fakes import nvml as fakes


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> fakes.FakeNvml:
    made = fakes.h100_pair()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def test_sessions_nest_and_close(machine: fakes.FakeNvml) -> None:
    """Also after an error, and an error that is not NVML's passes through unchanged."""
    with nvml.session(), nvml.session():
        assert machine.open_sessions == 2
    with pytest.raises(nvml.NvmlRefused, match="lost"), nvml.session():
        raise fakes.NVMLError("lost")
    with pytest.raises(KeyError), nvml.session():
        raise KeyError("mine")
    assert machine.open_sessions == 0


@pytest.mark.parametrize("binding", [None, fakes.no_driver()])
def test_missing_is_told_from_refused(monkeypatch: pytest.MonkeyPatch, binding: Any) -> None:
    """No binding, and a binding without a driver, are both "missing", with the reason."""
    monkeypatch.setitem(sys.modules, "pynvml", binding)
    assert not nvml.available()
    with pytest.raises(nvml.NvmlMissing, match="nvidia-ml-py|Library Not Found"), nvml.session():
        pytest.fail("the block must not run")


def test_a_driver_that_knows_no_mig_has_none(machine: fakes.FakeNvml) -> None:
    """The question itself may be an error there."""
    machine.broken["nvmlDeviceIsMigDeviceHandle"] = fakes.NVMLError("Function Not Found")
    with nvml.session() as library:
        handle = library.nvmlDeviceGetHandleByIndex(0)
        assert not nvml.is_mig(library, handle)
        assert nvml.whole_device(library, handle) is handle


def test_an_index_beyond_the_devices_is_named(machine: fakes.FakeNvml) -> None:
    """With how many there are."""
    with nvml.session() as library:
        assert nvml.handle_by_identifier(library, "1") is machine.devices[1]
        with pytest.raises(ValueError, match="no device 2: NVML counts 2"):
            nvml.handle_by_identifier(library, "2")


@pytest.mark.parametrize(
    ("name", "cores", "capability", "multiprocessors"),
    [
        ("A100", 6912, (8, 0), 108),
        ("A10", 9216, (8, 6), 72),
        ("L40S", 18176, (8, 9), 142),
        ("H100 SXM", 16896, (9, 0), 132),
        ("T4", 2560, (7, 5), 40),
        ("V100", 5120, (7, 0), 80),
    ],
)
def test_cores_give_the_known_number_of_multiprocessors(
    name: str, cores: int, capability: tuple[int, int], multiprocessors: int
) -> None:
    """The table is right for devices whose numbers are published."""
    assert cores // nvml.CORES_PER_MULTIPROCESSOR[capability] == multiprocessors, name
