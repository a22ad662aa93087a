"""What the whole suite shares: tests that need torch are left out, and said to be, where torch is missing."""

from __future__ import annotations

import ast
import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
LONGEST_TEST_S = 900
_left_out: list[str] = []


@cache
def _imports_torch(path: Path) -> bool:
    """Say whether a module imports torch where it is itself imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import) and any(
            name.name.partition(".")[0] == "torch" for name in node.names
        ):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            return True
    return False


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the files that cannot be imported without torch."""
    if HAS_TORCH or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    if _imports_torch(collection_path):
        _left_out.append(collection_path.name)
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked `torch` where torch is missing, and end any test that hangs."""
    for item in items:
        if not HAS_TORCH and item.get_closest_marker("torch"):
            item.add_marker(pytest.mark.skip(reason="needs torch: pip install 'platform-abc[torch]'"))
        # Not in the ini, where it would be an unknown option for who has no pytest-timeout.
        if config.pluginmanager.hasplugin("timeout") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONGEST_TEST_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, so that a green run without torch is not mistaken for the whole."""
    if _left_out:
        terminalreporter.write_line(f"left out, for want of torch: {', '.join(sorted(set(_left_out)))}")


@pytest.fixture
def use_platform(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return a function that makes a CPU platform with some members replaced the current one."""
    import platforms
    from platforms.cpu import CpuPlatform

    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    monkeypatch.delenv("CPU_VISIBLE_MEMORY_NODES", raising=False)

    def use(**members: Any) -> Any:
        wrapped = {
            name: classmethod(value) if callable(value) and not isinstance(value, type) else value
            for name, value in members.items()
        }
        platform = type("ChangedPlatform", (CpuPlatform,), {"__module__": __name__, **wrapped})()
        monkeypatch.setitem(vars(platforms), "current_platform", platform)
        _clear_selections()
        return platform

    yield use
    platforms.reset_current_platform()
    _clear_selections()


def _clear_selections() -> None:
    """Let the engine ask for attention backends again, if it has asked in this process."""
    selector = sys.modules.get("reference_model.selector")
    if selector is not None:
        selector.clear_cache()


@pytest.fixture
def ctrl_c_is_pythons_own() -> Iterator[None]:
    """A shell's background job starts with SIGINT ignored; some facts are about an interpreter that a user started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
