"""What a fresh interpreter leaves behind: processes that outlive it, and shared memory that nobody has open."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from conformance.isolation import reaper

_SHARED: Final = Path("/dev/shm")  # noqa: S108  the system's own place, which is only looked at
_GRACE: Final = 3.0
"""Seconds in which children of a process that has left may leave as well."""
_PAUSE: Final = 0.02
_LONGEST: Final = 120


@attrs.frozen
class Before:
    """What there was before a fresh interpreter started; on Linux, elsewhere nothing is seen.

    Args:
        children: ids of this process's children.
        memory: names of the segments of shared memory.
    """

    children: frozenset[int]
    memory: frozenset[str]


def look() -> Before:
    """Look, and see to it that orphans of what starts now become children of this process."""
    reaper.adopt_orphans()
    return Before(frozenset(reaper.children(os.getpid())), frozenset(_segments()))


def clear(before: Before, grace: float = _GRACE) -> list[str]:
    """End what has outlived a fresh interpreter, and say what it was.

    Args:
        before: from before it started.
        grace: seconds in which it may still go by itself.
    """
    until = time.monotonic() + grace
    while (alive := _alive(before)) and time.monotonic() < until:
        time.sleep(_PAUSE)
    left = [f"process {pid}: {_command(pid)}" for pid in sorted(alive)]
    for pid in reaper.children(os.getpid()) - before.children:
        reaper.kill_tree(pid)
        reaper.collect(pid, within=0.5)
    segments = set(_segments()) - before.memory
    if segments:
        used = _in_use()
        left += [f"shared memory {_SHARED / name}" for name in sorted(segments) if name not in used]
    return left


def _alive(before: Before) -> set[int]:
    """Children, with theirs, that came since and still run; those that have ended are collected."""
    alive: set[int] = set()
    for pid in reaper.children(os.getpid()) - before.children:
        if reaper.collect(pid, within=0) is None:
            alive |= {pid, *reaper.descendants(pid)}
    return alive


def _command(pid: int) -> str:
    """The command line of a process as far as it tells something."""
    with contextlib.suppress(OSError):
        text = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        )
        if text:
            return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    return "(gone)"


def _segments() -> Iterator[str]:
    """Names of this user's segments of shared memory."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(_SHARED):
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == os.getuid():
                    yield entry.name


def _in_use() -> set[str]:
    """Names of the segments that a running process has open or mapped; those belong to somebody."""
    used: set[str] = set()
    mark = f"{_SHARED}/"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines = (process / "maps").read_text("utf-8", "replace").splitlines()
            used |= {line.partition(mark)[2].partition(" ")[0] for line in lines if mark in line}
        with contextlib.suppress(OSError):
            for entry in os.scandir(process / "fd"):
                with contextlib.suppress(OSError):
                    place = os.readlink(entry.path)
                    if place.startswith(mark):
                        used.add(place.removeprefix(mark).partition(" ")[0])
    return used
