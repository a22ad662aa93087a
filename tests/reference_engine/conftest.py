"""What tests of the engine share: how this process has resolved the CPU platform."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport

# The engine computes with torch, so without it there is nothing here to test.
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ResolutionReport:
    """Return how this process has resolved the CPU platform."""
    import platforms

    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    platforms.reset_current_platform()
    return platforms.resolution_report()


@pytest.fixture(autouse=True)
def _ctrl_c(ctrl_c_is_pythons_own: None) -> None:
    """Engines interrupt hooks as Ctrl-C does."""
