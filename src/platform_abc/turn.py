"""A lock that says who holds it and for what, and that nobody waits for without end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from platform_abc import envs
from platform_abc.errors import ConfigError, ResolutionError


class Turn:
    """The right to do something that happens once a process; one thread has it at a time.

    Args:
        doing: what the holder does, as a phrase after "which is", for the error of who waits.
        timeout: gives the seconds that a thread waits.
    """

    def __init__(self, doing: str, timeout: Callable[[], float] = envs.resolution_timeout) -> None:
        self._doing = doing
        self._timeout = timeout
        self._lock = threading.Lock()
        self._owner: threading.Thread | None = None
        self.step = ""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @property
    def is_mine(self) -> bool:
        """Say whether the current thread has the turn."""
        return self._owner is threading.current_thread()

    @contextmanager
    def taken(self) -> Generator[None]:
        """Have the turn within a `with` block; waits for it.

        Raises:
            ResolutionError: another thread has it for too long; the text names both threads.
        """
        me = threading.current_thread()
        lock = self._acquire(me)
        self._owner = me
        self.step = "starting"
        try:
            yield
        finally:
            self._owner = None
            lock.release()

    def remember(self, step: str, subject: str) -> None:
        """Keep what the holder does now, for the errors."""
        self.step = f"{step} {subject}"

    def _acquire(self, me: threading.Thread) -> threading.Lock:
        try:
            seconds = self._timeout()
        except ConfigError as error:
            raise ResolutionError(str(error)) from error
        lock = self._lock
        if lock.acquire(timeout=seconds):
            return lock
        owner = self._owner
        who = _named(owner) if owner is not None else "another thread"
        raise ResolutionError(
            f"{_named(me)} waited {seconds:g} s for {who}, which is {self._doing} (now {self.step}{_position(owner)}). "
            "If that thread waits for a module which this one is importing, each waits for the other: do not "
            f"read current_platform at the top of a module. If it is only slow, raise {envs.RESOLUTION_TIMEOUT}"
        )

    def _after_fork(self) -> None:
        """In a forked child the thread that held the lock does not exist any more."""
        if self._owner is not None and not self.is_mine:
            self._lock = threading.Lock()
            self._owner = None


def _named(thread: threading.Thread) -> str:
    return f"thread {thread.name!r} ({thread.ident})"


def _position(thread: threading.Thread | None) -> str:
    """Where a thread is, outside the import machinery."""
    if thread is None:
        return ""
    frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and "<frozen" in frame.f_code.co_filename:
        frame = frame.f_back
    return f", at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
