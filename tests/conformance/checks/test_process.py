"""Pictures of the process before and after a hook."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.checks import _process

pytestmark = pytest.mark.torch


def test_nothing_done_is_no_difference() -> None:
    """Two pictures of an untouched process are equal."""
    assert _process.changed(_process.settings(), _process.settings()) == ""
    assert _process.changed(_process.habits(), _process.habits()) == ""


def test_another_folder_is_told_with_both_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The sentence has the setting, the old and the new value."""
    before = _process.settings()
    here = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert _process.changed(before, _process.settings()) == f"the working directory: {here} → {tmp_path}"


def test_a_thread_counts_only_where_it_holds_the_process() -> None:
    """A daemon thread and the idle thread of a pool do not; a plain one does."""
    before = _process.settings()
    done = threading.Event()
    daemon = threading.Thread(target=done.wait, daemon=True)
    plain = threading.Thread(target=done.wait, name="chip-monitor")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        daemon.start()
        assert _process.changed(before, _process.settings()) == ""
        plain.start()
        assert "chip-monitor" in _process.changed(before, _process.settings())
        done.set()
        daemon.join()
        plain.join()


def test_a_replaced_function_is_named_and_an_added_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the module itself defined and no longer has counts."""
    before = _process.functions(frozenset({"conformance"}))
    monkeypatch.setattr("conformance.checks._process.added_here", lambda: None, raising=False)
    assert list(_process.replaced(before)) == []
    monkeypatch.setattr("conformance.context.short", lambda value: "")
    assert list(_process.replaced(before)) == ["conformance.context.short"]


def test_silenced_logging_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`logging.disable` belongs to everyone."""
    before = _process.habits()
    monkeypatch.setattr(logging.root.manager, "disable", logging.WARNING)
    assert "logging.disable" in _process.changed(before, _process.habits())
