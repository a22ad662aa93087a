"""How the front end learns that all processes of its engine are gone, and ends those that are not."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


class Lifeline:
    """A pipe whose other end every process of the engine holds for as long as it lives."""

    def __init__(self) -> None:
        self._ours, self.theirs = multiprocessing.Pipe(duplex=False)

    def handed_on(self) -> None:
        """Close this process's copy of the other end, once the child has one."""
        self.theirs.close()

    def wait(self, seconds: float) -> bool:
        """Wait until nobody holds the other end; say whether that was so in time."""
        self.theirs.close()
        gone = self._ours.poll(seconds)
        self._ours.close()
        return gone


def end_session(leader: int, seconds: float = 1.0) -> None:
    """Kill all that is left of a session, also what its processes start meanwhile.

    Args:
        leader: number of the process that led it.
        seconds: longest wait for those that were killed to be gone.
    """
    killed: set[int] = set()
    while new := {number for number in _processes() if _session_of(number) == leader} - killed:
        killed |= new
        for number in new:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
    until = time.monotonic() + seconds
    while any(_session_of(number) == leader for number in killed) and time.monotonic() < until:
        time.sleep(0.01)


def _session_of(number: int) -> int | None:
    """Return the session of a process; None of one that is gone, or only waits for its parent to take note."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{number}/stat")
        if not (state.exists() and state.read_text().rpartition(") ")[2].startswith("Z")):
            return os.getsid(number)
    return None


def _processes() -> Iterator[int]:
    if Path("/proc/self").exists():
        names = [entry.name for entry in Path("/proc").iterdir()]
    else:
        names = subprocess.run(
            ["ps", "-axo", "pid="], capture_output=True, text=True, check=True
        ).stdout.split()
    return (int(name) for name in names if name.isdecimal())
