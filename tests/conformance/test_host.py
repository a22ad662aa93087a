"""The host: what it runs beside what."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from conformance.isolation.fresh import Starter
from conformance.isolation.host import Session
from platform_abc.types import PlatformEnum


def _session(kind: object) -> Session:
    cls = type("Chip", (), {"_enum": kind, "device_type": "cpu"})
    return Session(cls, cast("Any", None), Starter([], {}, Path(), 1.0), None)


@pytest.mark.parametrize("check_id", ["device.memory", "engine.in-process", "engine.processes"])
def test_what_uses_a_device_runs_beside_nothing(check_id: str) -> None:
    """Two engines do not fit on one device, and some devices take one process at a time."""
    assert _session(PlatformEnum.CUDA).is_alone(check_id)
    assert _session(PlatformEnum.OOT).is_alone(check_id)
    assert _session("CPU").is_alone(check_id)


def test_the_host_processor_is_no_device() -> None:
    """On the host's processor engines boot beside each other."""
    assert not _session(PlatformEnum.CPU).is_alone("engine.processes")


def test_what_asks_no_device_runs_beside_others() -> None:
    """Checks up to level contract leave the device alone."""
    assert not _session(PlatformEnum.CUDA).is_alone("spawn.worker-agrees")
