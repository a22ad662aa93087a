"""Turns: no more fresh interpreters of a run at a time than there are cores, and one for each shared call."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Final

_PAUSE: Final = 0.05
_NEWS: Final = 2.0
"""Seconds between two words to whoever supervises the wait."""


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


@contextlib.contextmanager
def turn(files: Iterable[Path], waiting: Callable[[], None]) -> Generator[None]:
    """Hold one of the turns that the files stand for; all processes that name them share these.

    Args:
        files: one for each turn.
        waiting: called now and then while none is free.
    """
    places = tuple(files)
    held = _take(places)
    told = 0.0
    while held is None:
        if time.monotonic() - told > _NEWS:
            waiting()
            told = time.monotonic()
        time.sleep(_PAUSE)
        held = _take(places)
    try:
        yield
    finally:
        os.close(held)  # which gives the turn back, as does the end of this process


def _take(files: Iterable[Path]) -> int | None:
    for file in files:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return descriptor
    return None
