"""Resolve once per process, whichever thread reads first, without hanging.

The platform is made under a lock. A read from within (a detector, or the platform's own module)
and a wait that takes too long both end with a `ResolutionError` that says who does what.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from platform_abc import envs
from platform_abc.errors import ConfigError, ResolutionError
from platform_abc.resolution import ResolutionSpec, resolve, stack_of_reader

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport


class Resolver:
    """The one platform object of a process, made on first use.

    Args:
        spec: gives the rules; called when the resolution starts, so that making a resolver imports
            no detector.
        timeout: gives the seconds that a thread waits for another one's resolution.
        skip: file names whose frames are left out of the first read's stack.
    """

    def __init__(
        self,
        spec: Callable[[], ResolutionSpec],
        timeout: Callable[[], float] = envs.resolution_timeout,
        skip: tuple[str, ...] = (),
    ) -> None:
        self._spec = spec
        self._timeout = timeout
        self._skip = (__file__, *skip)
        self._lock = threading.Lock()
        self._owner: threading.Thread | None = None
        self._step = ""
        self._result: tuple[object, ResolutionReport] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def platform(self) -> object:
        """Return the platform object; the first call resolves.

        Raises:
            ResolutionError: it cannot be resolved, is being resolved by this very thread, or
                another thread takes too long.
        """
        return self._resolved()[0]

    def report(self) -> ResolutionReport:
        """Return the report of the resolution; resolves if that has not happened yet.

        Raises:
            ResolutionError: as `platform`; the error's `report` is then the report.
        """
        return self._resolved()[1]

    def reset(self) -> None:
        """Forget the platform, so that the next read resolves again; for tests only."""
        self._result = None

    def _resolved(self) -> tuple[object, ResolutionReport]:
        if self._result is not None:
            return self._result
        me = threading.current_thread()
        if self._owner is me:
            raise ResolutionError(
                f"current_platform is read while it is being resolved (now {self._step}): a detector and "
                "the modules it imports, and the platform's own module, must not read it; read it later, "
                "inside the function that needs it"
            )
        self._acquire(me)
        try:
            if self._result is None:
                self._owner = me
                self._step = "starting"
                self._result = resolve(
                    self._spec(), first_read=stack_of_reader(self._skip), progress=self._remember
                )
            return self._result
        finally:
            self._owner = None
            self._lock.release()

    def _remember(self, step: str, subject: str) -> None:
        self._step = f"{step} {subject}"

    def _acquire(self, me: threading.Thread) -> None:
        try:
            seconds = self._timeout()
        except ConfigError as error:
            raise ResolutionError(str(error)) from error
        if self._lock.acquire(timeout=seconds):
            return
        owner = self._owner
        who = _thread(owner) if owner is not None else "another thread"
        raise ResolutionError(
            f"{_thread(me)} waited {seconds:g} s for {who}, which is resolving the platform "
            f"(now {self._step}{_position(owner)}). If that thread waits for a module which this one is importing, "
            "each waits for the other: do not read current_platform at the top of a module. "
            f"If it is only slow, raise {envs.RESOLUTION_TIMEOUT}"
        )

    def _after_fork(self) -> None:
        """In a forked child the thread that held the lock may not exist any more."""
        if self._owner is not None and self._owner is not threading.current_thread():
            self._lock = threading.Lock()
            self._owner = None


def _thread(thread: threading.Thread) -> str:
    return f"thread {thread.name!r} ({thread.ident})"


def _position(thread: threading.Thread | None) -> str:
    """Where a thread is, outside the import machinery."""
    frame = sys._current_frames().get(thread.ident or 0) if thread is not None else None
    while frame is not None and "<frozen importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return f", at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
