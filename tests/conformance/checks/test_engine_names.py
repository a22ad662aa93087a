"""Names that an engine calls and nobody has: those of every run are faults, the others warnings."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from conformance.checks.engine_names import engine_calls, engine_names
from conformance.context import CheckContext
from conformance.engines.base import EngineCall
from conformance.engines.native import NativeAdapter
from conformance.model import Violation
from tests.mutants.good import Good

pytestmark = pytest.mark.torch


@attrs.define
class _Reads(NativeAdapter):
    """The native adapter with other calls in the engine's source."""

    calls: tuple[EngineCall, ...] = ()
    _members: Any = None

    def engine_calls(self) -> tuple[EngineCall, ...]:
        return self.calls


class _HasIt(Good):
    """Has the name that the engine calls."""

    def chip_stream(self) -> object:
        return object()


def _fresh(*_args: object) -> object:
    raise AssertionError("no interpreter is needed")


def _found(check: Any, cls: type, *calls: EngineCall) -> list[str]:
    try:
        check(CheckContext(cls, _Reads(calls), _fresh))
    except Violation as violation:
        return [one.member for one in violation.findings]
    return []


def _call(*, common: bool = False, guarded: bool = False, is_read: bool = False) -> EngineCall:
    return EngineCall("chip_stream", 0, (), "engine/x.py:1", common, guarded, is_read=is_read)


def test_a_name_of_every_run_is_a_fault() -> None:
    """None is called there in every run."""
    assert _found(engine_calls, Good, _call(common=True)) == ["chip_stream"]
    assert _found(engine_names, Good, _call(common=True)) == []


def test_a_name_of_a_feature_is_a_warning() -> None:
    """Only who turns the feature on meets it."""
    assert _found(engine_names, Good, _call()) == ["chip_stream"]
    assert _found(engine_calls, Good, _call()) == []


@pytest.mark.parametrize("call", [_call(guarded=True), _call(is_read=True)])
def test_a_guarded_call_and_a_read_are_none(call: EngineCall) -> None:
    """The engine looks first, or may do without."""
    assert _found(engine_names, Good, call) == []


def test_a_platform_that_has_the_name_is_right() -> None:
    """A member that no base declares serves all the same."""
    assert _found(engine_names, _HasIt, _call()) == []
