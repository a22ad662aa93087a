"""How the front end learns that all processes of its engine are gone, and ends those that are not."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
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


def end_session(leader: int) -> None:
    """Kill all that is left of a session.

    Args:
        leader: number of the process that led it.
    """
    for number in _processes():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(number) == leader:
                os.kill(number, signal.SIGKILL)


def _processes() -> Iterator[int]:
    if Path("/proc/self").exists():
        names = [entry.name for entry in Path("/proc").iterdir()]
    else:
        names = subprocess.run(
            ["ps", "-axo", "pid="], capture_output=True, text=True, check=True
        ).stdout.split()
    return (int(name) for name in names if name.isdecimal())
