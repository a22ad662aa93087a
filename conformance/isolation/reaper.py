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
_TRACKER: Final = b"multiprocessing.resource_tracker"
_FOR_TRACKERS: Final = 1.0


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


def _group(pid: int) -> set[int]:
    """The ids of the processes in the group that `pid` leads or led; empty where the system does not say."""
    if pid == os.getpgrp():
        return set()
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        fields = _read(int(entry.name), "stat").rpartition(b")")[2].split()
        if len(fields) > 2 and int(fields[2]) == pid:
            found.add(int(entry.name))
    return found


def runs(pid: int) -> bool:
    """Say whether a process is there and has not ended."""
    return _read(pid, "stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"])


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


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


def kill_tree(pid: int, *, collected: bool = False) -> None:
    """End a process, its group and its descendants, whatever sessions these have.

    Python's trackers of shared memory are last and get a moment: they remove what the others left.

    Args:
        collected: the process itself has ended and been collected, so that its id may be another's.
    """
    below = _group(pid) if collected else descendants(pid) | _group(pid) | {pid}
    trackers = {one for one in below if _TRACKER in _read(one, "cmdline")}
    for one in below - trackers:
        kill(one)
    deadline = time.monotonic() + _FOR_TRACKERS
    while any(runs(one) for one in trackers) and time.monotonic() < deadline:
        time.sleep(0.01)
    if not collected or sys.platform != "linux":
        kill_group(pid)
    for one in trackers:
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
