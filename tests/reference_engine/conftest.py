"""What tests of the engine share: a CPU platform that a test may change, put where the engine reads it."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport

# The engine computes with torch, so without it there is nothing here to test.
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture
def use_platform(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return a function that makes a CPU platform with some members replaced the current one."""
    import platforms
    from platforms.cpu import CpuPlatform
    from reference_engine import selector

    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    monkeypatch.delenv("CPU_VISIBLE_MEMORY_NODES", raising=False)

    def use(**members: Any) -> Any:
        wrapped = {
            name: classmethod(value) if callable(value) and not isinstance(value, type) else value
            for name, value in members.items()
        }
        platform = type("ChangedPlatform", (CpuPlatform,), {"__module__": __name__, **wrapped})()
        monkeypatch.setitem(vars(platforms), "current_platform", platform)
        selector.clear_cache()
        return platform

    yield use
    platforms.reset_current_platform()
    selector.clear_cache()


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ResolutionReport:
    """Return how this process has resolved the CPU platform."""
    import platforms

    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    platforms.reset_current_platform()
    return platforms.resolution_report()


@pytest.fixture(autouse=True)
def ctrl_c_is_pythons_own() -> Iterator[None]:
    """A shell's background job starts with SIGINT ignored; these facts are about an interpreter that a user started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
