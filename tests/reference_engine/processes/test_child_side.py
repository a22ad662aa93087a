"""Facts about the child's side: what it refuses to work with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from platform_abc.config import EngineConfig
from platform_abc.foreign import describe
from platform_abc.hooks.watch import EngineFailed
from platform_abc.resolution_report import ResolutionReport
from reference_engine.processes.child import Child, ProcessFailed
from reference_engine.processes.child_side import answer_calls, failure_text
from tests.reference_engine.children import serve_all
from tests.reference_engine.processes.test_child import start_of


def test_a_child_refuses_to_work_on_another_platform(report: ResolutionReport) -> None:
    """It names both platforms and the variable that differs."""
    variables = {**report.variables, "PLATFORM_ABC_TARGET_DEVICE": "auto"}
    other = attrs.evolve(report, chosen="vendor.Platform", variables=variables)
    with pytest.raises(ProcessFailed, match=r"(?s)vendor\.Platform.*PLATFORM_ABC_TARGET_DEVICE"):
        Child(serve_all, start_of(other)).ready()


def test_a_config_that_became_invalid_is_refused_on_receipt(report: ResolutionReport) -> None:
    """What slipped past the front end is found in the next process, by field."""
    config = EngineConfig()
    vars(config.cache_config)["block_size"] = 0
    with pytest.raises(ProcessFailed, match=r"cache_config\.block_size = 0.*the process that sent it"):
        Child(serve_all, start_of(report, config)).ready()


def test_a_failure_is_one_line_and_then_all_that_is_known() -> None:
    """Also of an exception that cannot say what it is; the engine's own says all itself."""

    class Mute(BaseException):
        def __str__(self) -> str:
            raise SystemExit(9)

    first, second, *_ = failure_text(Mute()).splitlines()
    assert first.startswith("Mute: (its text")
    assert "Mute" in second
    assert failure_text(EngineFailed("a\nb")) == "a\nb"
    noted = KeyError("x")
    noted.add_note("named by get_punica_wrapper of P")
    assert failure_text(noted).splitlines()[0] == "KeyError: 'x' (named by get_punica_wrapper of P)"


class Gone:
    """The line to a parent that wants no more."""

    def __init__(self) -> None:
        self.watch = SimpleNamespace(process="worker 1")

    def receive(self) -> Any:
        raise EOFError


@pytest.mark.parametrize("error", [KeyError("seeded"), SystemExit(9)])
def test_a_worker_that_cannot_end_says_so_in_a_line(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for its answer, and a traceback on the user's terminal is none."""

    def handler(name: str, _args: tuple[Any, ...]) -> None:
        assert name == "close"
        raise error

    line: Any = Gone()
    answer_calls(handler, line)
    (record,) = caplog.records
    assert record.getMessage() == f"the worker 1 process did not end well: {describe(error)}"
    assert record.exc_info is None
