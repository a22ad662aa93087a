"""Facts about child processes: every way to fail is one error that names the process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading

import attrs
import pytest

from platform_abc.config import EngineConfig
from platform_abc.resolution_report import ResolutionReport
from platform_abc.timeline import Process
from reference_engine.child import Child, ChildStart, ProcessFailed, pickle_config
from tests.reference_engine.children import serve_all, serve_nothing


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ResolutionReport:
    import platforms

    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    platforms.reset_current_platform()
    return platforms.resolution_report()


def start_of(report: ResolutionReport, config: EngineConfig | None = None) -> ChildStart:
    config = config or EngineConfig(instance_id="me")
    return ChildStart(
        process=Process.WORKER, config=pickle_config(config), report=report.to_json(), traced=True
    )


def test_a_child_answers_and_ends_with_its_parent(report: ResolutionReport) -> None:
    """The config arrives, an exception is told and survived, and nothing is left behind."""
    child = Child(serve_all, start_of(report))
    assert child.call("echo", 1, "two") == ("me", 1, "two")
    with pytest.raises(ProcessFailed, match="(?s)worker process failed in 'raise'.*ValueError: seeded fault"):
        child.call("raise")
    assert child.call("echo") == ("me",)
    names = [seen.name for seen in child.call("trace")]
    assert names[-2:] == ["general plugins", "log_warnings"]
    child.close()
    assert not child.alive
    assert multiprocessing.active_children() == []
    with pytest.raises((ProcessFailed, OSError)):
        child.call("echo")


def test_a_child_that_exits_or_is_killed_is_named(report: ResolutionReport) -> None:
    """Status 0 without an answer is a failure too, and so is a signal."""
    child = Child(serve_all, start_of(report))
    with pytest.raises(ProcessFailed, match="worker process ended with status 0 without an answer to 'exit'"):
        child.call("exit")
    child.close()
    child = Child(serve_all, start_of(report))
    assert child.pid is not None
    kill = threading.Timer(0.5, os.kill, (child.pid, signal.SIGKILL))
    kill.start()
    with pytest.raises(ProcessFailed, match="ended on signal 9 without an answer to 'hang'"):
        child.call("hang")
    child.close()


def test_a_child_that_hangs_is_given_up_and_killed(
    report: ResolutionReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit is in the message, and closing does not wait for ever."""
    monkeypatch.setattr("reference_engine.child.END_SECONDS", 0.5)
    child = Child(serve_all, start_of(report))
    with pytest.raises(ProcessFailed, match=r"did not answer 'hang' within 0\.3 s"):
        child.call("hang", seconds=0.3)
    child.close()
    assert not child.alive


def test_a_child_that_cannot_start_says_why(report: ResolutionReport) -> None:
    """The exception of the start is told, and the process is gone."""
    with pytest.raises(ProcessFailed, match="(?s)failed in 'start'.*RuntimeError: no device today"):
        Child(serve_nothing, start_of(report))
    assert multiprocessing.active_children() == []


def test_a_child_refuses_to_work_on_another_platform(report: ResolutionReport) -> None:
    """It names both platforms and the variable that differs."""
    variables = {**report.variables, "PLATFORM_ABC_TARGET_DEVICE": "auto"}
    other = attrs.evolve(report, chosen="vendor.Platform", variables=variables)
    with pytest.raises(ProcessFailed, match=r"(?s)vendor\.Platform.*PLATFORM_ABC_TARGET_DEVICE"):
        Child(serve_all, start_of(other))


def test_a_config_that_became_invalid_is_refused_on_receipt(report: ResolutionReport) -> None:
    """What slipped past the front end is found in the next process, by field."""
    config = EngineConfig()
    vars(config.cache_config)["block_size"] = 0
    with pytest.raises(ProcessFailed, match=r"cache_config\.block_size = 0.*the process that sent it"):
        Child(serve_all, start_of(report, config))


def test_a_config_that_does_not_pickle_names_the_part() -> None:
    """A lock or a lambda that a hook put there is told by part."""
    config = EngineConfig()
    config.additional_config = {"lock": threading.Lock()}
    with pytest.raises(TypeError, match="additional_config does not pickle"):
        pickle_config(config)
