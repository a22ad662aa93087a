"""Ends processes: a group by its id, and on Linux whatever a check left behind, daemons included."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

_SET_CHILD_SUBREAPER: Final = 36
_SWEEPS: Final = 20


def adopt_orphans() -> bool:
    """Become the parent of every descendant that loses its own, so that `sweep` finds it; Linux only."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def children(pid: int) -> set[int]:
    """The ids of the children of a process; empty where the system does not say."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(int(one) for one in listing.read_text().split())
    return found


def descendants(pid: int) -> set[int]:
    """The ids of the children of a process, of their children, and so on."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for one in children(waiting.pop()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def kill(pid: int) -> None:
    """End one process at once; one that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """End the process group that `pid` leads, and `pid` itself; never our own group."""
    if pid != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    kill(pid)


def kill_tree(pid: int) -> None:
    """End a process, its group and its descendants."""
    below = descendants(pid)
    kill_group(pid)
    for one in below:
        kill(one)


def sweep(keep: set[int]) -> int:
    """End and collect every child of this process that is not in `keep`, with its descendants.

    Returns:
        How many there were.
    """
    ended: set[int] = set()
    for _ in range(_SWEEPS):
        left = children(os.getpid()) - keep
        if not left:
            break
        for one in left:
            kill_tree(one)
            ended.add(one)
            collect(one, within=0.5)
    return len(ended)


def collect(pid: int, within: float) -> int | None:
    """Wait for a child to end.

    Args:
        within: seconds to wait at most.

    Returns:
        Its status as `os.waitpid` gives it; 0 if something else collected it; None if it still runs.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return 0
        if ended:
            return status
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)
