"""Facts about child processes: every way to fail is one error that names the process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from platform_abc.config import EngineConfig
from platform_abc.resolution_report import ResolutionReport
from platform_abc.timeline import Process
from reference_engine.processes.child import Child, ProcessFailed, gather
from reference_engine.processes.child_start import ChildStart, pickle_config
from tests.reference_engine.children import serve_all, serve_nothing


def call(child: Child, name: str, *args: Any, seconds: float = 60) -> Any:
    """Ask a child and wait for its answer."""
    child.send(name, args, seconds)
    return gather([child], name, seconds)[0]


def start_of(report: ResolutionReport, config: EngineConfig | None = None) -> ChildStart:
    config = config or EngineConfig(instance_id="me")
    return ChildStart(
        process=Process.WORKER, config=pickle_config(config), report=report.to_json(), traced=True
    )


def test_a_child_answers_and_ends_with_its_parent(report: ResolutionReport) -> None:
    """The config arrives, an exception is told and survived, and nothing is left behind."""
    child = Child(serve_all, start_of(report)).ready()
    assert call(child, "echo", 1, "two") == ("me", 1, "two")
    with pytest.raises(ProcessFailed, match="(?s)worker process failed in 'raise'.*ValueError: seeded fault"):
        call(child, "raise")
    assert call(child, "echo") == ("me",)
    names = [seen.name for seen in call(child, "trace")]
    assert names[-2:] == ["general plugins", "log_warnings"]
    child.close()
    assert not child.alive
    assert multiprocessing.active_children() == []
    with pytest.raises((ProcessFailed, OSError)):
        call(child, "echo")


def test_a_child_that_exits_or_is_killed_is_named(report: ResolutionReport) -> None:
    """Status 0 without an answer is a failure too, and so is a signal."""
    child = Child(serve_all, start_of(report)).ready()
    with pytest.raises(ProcessFailed, match="worker process ended with status 0 without an answer to 'exit'"):
        call(child, "exit")
    child.close()
    child = Child(serve_all, start_of(report)).ready()
    assert child.pid is not None
    kill = threading.Timer(0.5, os.kill, (child.pid, signal.SIGKILL))
    kill.start()
    with pytest.raises(ProcessFailed, match="ended on signal 9 without an answer to 'hang'"):
        call(child, "hang")
    child.close()


def test_a_child_that_hangs_says_where_and_answers_nothing_later(report: ResolutionReport) -> None:
    """The time limit and the function are in the message; a late answer is not taken for another call's."""
    child = Child(serve_all, start_of(report)).ready()
    with pytest.raises(
        ProcessFailed, match=r"(?s)no end within 0\.3 s; it was here:.*children\.py.* in answer"
    ):
        call(child, "hang", seconds=0.3)
    with pytest.raises(ProcessFailed, match="without an answer to 'echo'"):
        call(child, "echo")
    child.close()
    assert not child.alive


def test_a_child_that_cannot_even_say_where_is_given_up(
    report: ResolutionReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped altogether is killed when its time is over."""
    monkeypatch.setattr("reference_engine.processes.child.GRACE_SECONDS", 0.2)
    child = Child(serve_all, start_of(report)).ready()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(ProcessFailed, match=r"did not answer 'echo' within 0\.3 s"):
        call(child, "echo", seconds=0.3)
    with pytest.raises(ProcessFailed, match="ended on signal 9 without an answer to 'echo'"):
        call(child, "echo")
    child.close()
    assert not child.alive


def test_answers_that_cannot_travel_and_exits_are_failures_that_the_child_survives(
    report: ResolutionReport,
) -> None:
    """What does not pickle, what does not unpickle, and `sys.exit` are told; unpickled garbage ends it."""
    child = Child(serve_all, start_of(report)).ready()
    with pytest.raises(ProcessFailed, match="failed in 'lock': its answer does not pickle: TypeError"):
        call(child, "lock")
    with pytest.raises(ProcessFailed, match="failed in 'leave': SystemExit: 3"):
        call(child, "leave")
    with pytest.raises(ProcessFailed, match="arguments of 'echo' cannot be sent to the worker process"):
        call(child, "echo", threading.Lock())
    assert call(child, "echo", 1) == ("me", 1)
    with pytest.raises(ProcessFailed, match="answer of the worker process to 'unreadable' cannot be read"):
        call(child, "unreadable")
    child.close()


SCRIPT = """
import sys, time
from platform_abc.config import EngineConfig
from platform_abc.timeline import Process
from reference_engine.processes.child import Child
from reference_engine.processes.child_start import ChildStart, pickle_config
import platforms
from tests.reference_engine.children import serve_all
from tests.reference_engine.processes.test_child import call

def start():
    report = platforms.resolution_report().to_json()
    return Child(serve_all, ChildStart(process=Process.WORKER, config=pickle_config(EngineConfig()), report=report)).ready()
"""


def script(tmp_path: Path, rest: str) -> subprocess.Popen[str]:
    """Start a script that knows `start`, with the repository importable."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT + rest)
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PLATFORM_ABC_TARGET_DEVICE": "cpu", "PYTHONPATH": path},
    )


def test_a_script_without_a_guard_is_told_what_to_write(tmp_path: Path) -> None:
    """The child imports the script again; where that starts another child, the error names the guard."""
    _, err = script(tmp_path, "start()\n").communicate(timeout=60)
    assert err.rstrip().endswith('a script starts an engine under `if __name__ == "__main__":` only')
    assert "the worker process ended with status 1 without an answer to 'start'" in err


def test_a_child_that_nobody_closed_ends_with_the_script(tmp_path: Path) -> None:
    """The interpreter does not wait for it for ever."""
    process = script(tmp_path, "if __name__ == '__main__':\n    kept = start()\n    print(kept.pid)\n")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert not _runs(int(out))


def test_a_child_that_hangs_ends_after_its_parent_was_killed(tmp_path: Path) -> None:
    """No process is left behind, whatever it was doing."""
    process = script(
        tmp_path,
        "if __name__ == '__main__':\n    c = start()\n    print(c.pid, flush=True)\n    call(c, 'hang')\n",
    )
    assert process.stdout is not None
    number = int(process.stdout.readline())
    time.sleep(0.3)
    process.kill()
    process.communicate(timeout=30)
    until = time.monotonic() + 30
    while _runs(number) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _runs(number)


def _runs(number: int) -> bool:
    """Say whether a process of this number exists; one that waits to be collected has ended."""
    state = Path(f"/proc/{number}/stat")
    try:
        os.kill(number, 0)
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_child_that_cannot_start_says_why(report: ResolutionReport) -> None:
    """The exception of the start is told, and the process is gone."""
    with pytest.raises(ProcessFailed, match="(?s)failed in 'start'.*RuntimeError: no device today"):
        Child(serve_nothing, start_of(report)).ready()
    assert multiprocessing.active_children() == []
