"""From a name to a class: what is the platform's fault, and what this machine lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import platform_abc
from conformance.checks._resolve import resolve_class
from conformance.context import CheckContext
from conformance.engines.native import adapter
from conformance.model import Skip, Violation
from tests.mutants.good import Good

pytestmark = pytest.mark.torch


class Elsewhere(Good):
    """A platform whose device is on no machine."""

    device_type: str = "cuda"


def resolve(cls: type, name: str) -> type:
    """Resolve what the communicator's picker would have named."""

    def fresh(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no interpreter is started here")

    return resolve_class(
        CheckContext(cls, adapter(), fresh), "get_device_communicator_cls", name, "It names a class"
    )


@pytest.fixture
def breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a class in a part of the engine whose import raises."""
    (tmp_path / "breaks_here.py").write_text("raise AssertionError('not compiled for the device')\n")
    monkeypatch.setattr(platform_abc, "__path__", [*platform_abc.__path__, str(tmp_path)])
    return "platform_abc.breaks_here.Thing"


@pytest.fixture(autouse=True)
def _without_device(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_part_of_the_engine_that_needs_the_device_is_skipped(breaks: str) -> None:
    """Where the device is missing, an engine's module that does not import without says nothing of the platform."""
    with pytest.raises(Skip, match="a part of the engine, does not import without"):
        resolve(Elsewhere, breaks)


def test_the_same_part_is_a_fault_where_the_device_is(breaks: str) -> None:
    """A platform of the host's processor names what imports on it."""
    with pytest.raises(Violation, match="not compiled for the device"):
        resolve(Good, breaks)


@pytest.mark.parametrize(
    "name", ["platform_abc.nowhere.Thing", "platform_abc.nowhere.deeper.Thing", "platform_abc.errors.Thing"]
)
def test_a_wrong_name_is_a_fault_on_any_machine(name: str) -> None:
    """A module that the engine does not have, or a name that is not in it, is the platform's mistake."""
    with pytest.raises(Violation):
        resolve(Elsewhere, name)
    assert name.rpartition(".")[0] in sys.modules or "nowhere" in name
