"""Facts about how the front end learns that all of its engine is gone."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.connection import Connection

import pytest

from reference_engine.processes.lifeline import Lifeline, end_session


def _hold(line: Connection, seconds: float) -> None:
    time.sleep(seconds)


def test_the_line_ends_with_the_last_process_that_holds_it() -> None:
    """Not with the first, and not before its time."""
    context = multiprocessing.get_context("fork")
    line = Lifeline()
    processes = [context.Process(target=_hold, args=(line.theirs, seconds)) for seconds in (0.1, 0.6)]
    for process in processes:
        process.start()
    line.handed_on()
    start = time.monotonic()
    assert line.wait(10)
    assert time.monotonic() - start > 0.3
    for process in processes:
        process.join()


def test_a_process_that_stays_is_told() -> None:
    """The wait is bounded."""
    line = Lifeline()
    kept = line.theirs
    other = os.dup(kept.fileno())
    line.handed_on()
    assert not line.wait(0.1)
    os.close(other)


@pytest.mark.skipif(sys.platform == "win32", reason="sessions are of POSIX")
def test_all_of_a_session_is_ended_and_nothing_else() -> None:
    """Also what its leader has started and left."""
    script = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"
    )
    leader = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    other = subprocess.Popen(["sleep", "60"])
    assert leader.stdout is not None
    grandchild = int(leader.stdout.readline())
    leader.kill()
    leader.wait()
    assert os.getsid(grandchild) == leader.pid
    end_session(leader.pid)
    until = time.monotonic() + 5
    while _runs(grandchild) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _runs(grandchild)
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="sessions are of POSIX")
def test_what_a_session_starts_while_it_is_ended_goes_too() -> None:
    """Whoever supervises it may start what was killed again, after one has looked."""
    script = """
import os, time
print(flush=True)
for _ in range(2000):
    if not os.fork():
        time.sleep(60)
    time.sleep(0.0005)
"""
    leader = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    leader.stdout.readline()
    end_session(leader.pid)
    leader.wait()
    left = subprocess.run(
        ["ps", "-eo", "sid=,stat="], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert [line for line in left if line.split()[:1] == [str(leader.pid)] and "Z" not in line] == []


def _runs(number: int) -> bool:
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False
    )
    return listed.stdout.strip()[:1] not in ("", "Z")
