"""The child's side of a child process: it agrees with its parent, answers it, and ends with it.

The child resolves the platform again and refuses to work on another one than its parent.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

import platforms
from platform_abc.foreign import describe, traceback_text
from platform_abc.hooks import trace
from platform_abc.hooks.watch import EngineFailed, HookWatch, who_raised
from platform_abc.timeline import Process
from reference_engine.processes.child_start import ChildStart

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

T = TypeVar("T")

logger = logging.getLogger(__name__)

_ORPHAN_SECONDS: Final = 1.0
"""Longest life of a child whose parent is gone."""

_LEADER_ENDS_SECONDS: Final = 8.0
"""The same of one that leads a session, and has Ray to end."""

Handler = Callable[[str, tuple[Any, ...]], Any]
"""Answers one call: its name and its arguments."""

Loop = Callable[["Line"], None]
"""Answers the parent until it is gone."""

Serve = Callable[["EngineConfig", ChildStart], T]
"""Makes what answers, in the child, once the platform agrees and the configuration is valid."""


class Line:
    """The child's end of the connection; each call is answered once, also where it does not end.

    Args:
        connection: to the parent.
        start: how the child was started.
    """

    def __init__(self, connection: Connection, start: ChildStart) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self.watch = HookWatch(
            start.name,
            start.hook_seconds,
            platforms.resolved_platform,
            self._give_up,
            stacks=start.stacks,
        )

    def waiting(self) -> bool:
        """Say whether a call has come, or the end of the connection."""
        return self._connection.poll(0)

    def receive(self) -> tuple[str, tuple[Any, ...], float]:
        """Return the next call: its name, its arguments and its time limit in seconds.

        Raises:
            EOFError: the parent has closed the connection or is gone.
        """
        try:
            call: tuple[str, tuple[Any, ...], float] = self._connection.recv()
        except ConnectionResetError as error:
            raise EOFError from error
        return call

    def _give_up(self, text: str) -> None:
        self.send(False, text)
        os._exit(1)

    def send(self, ok: bool, value: Any) -> None:
        """Answer the call; an answer that does not pickle is a failure that says so."""
        with self._sending, contextlib.suppress(BrokenPipeError):
            try:
                self._connection.send((ok, value))
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - pickling runs foreign code
                self._connection.send((False, f"its answer does not pickle: {describe(error)}"))


def _end_with_parent(start: ChildStart) -> None:
    """Let this process end soon after its parent, whatever it is doing then, and take the folder along."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        time.sleep(_LEADER_ENDS_SECONDS if start.own_session else _ORPHAN_SECONDS)
        _remove_folder(start)
        for child in multiprocessing.active_children():
            child.kill()  # one that stands still would not see that its parent is gone
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _remove_folder(start: ChildStart) -> None:
    if start.process is Process.ENGINE_CORE and start.folder:
        shutil.rmtree(start.folder, ignore_errors=True)


def run_child(connection: Connection, serve: Serve[Loop], start: ChildStart) -> None:
    """Run the child: agree on the platform, check the configuration, answer until the parent is gone."""
    # An interrupt goes to the whole group; the parent decides and closes the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if start.own_session:
        os.setsid()
    _end_with_parent(start)
    line = Line(connection, start)
    with line.watch.watching():
        try:
            with line.watch.limited(start.seconds):
                loop = prepare(serve, start)
        except BaseException as error:  # noqa: BLE001 - told to the parent, whatever it is
            line.send(False, failure_text(error))
            raise SystemExit(1) from None
        line.send(True, None)
        loop(line)
    _remove_folder(start)  # nobody else does where the front end was killed


def answer_calls(handler: Handler, line: Line) -> None:
    """Answer one call after the other.

    Args:
        handler: given the name and the arguments of each, the last of which is `close`.
        line: to the parent.
    """
    while True:
        try:
            name, args, seconds = line.receive()
        except EOFError:
            try:
                handler("close", ())
            except BaseException as error:  # noqa: BLE001 - the parent waits for the end only, so it is told here
                what = failure_text(error).partition("\n")[0]
                logger.warning("the %s process did not end well: %s", line.watch.process, what)
            return
        try:
            with line.watch.limited(seconds):
                ok, value = True, handler(name, args)
        except BaseException as error:  # noqa: BLE001 - sent to the parent, which raises it
            ok, value = False, failure_text(error)
        line.send(ok, value)


def prepare(serve: Serve[T], start: ChildStart) -> T:
    """Agree with the parent on the platform, load the plugins, check the configuration, and make what answers.

    Args:
        serve: makes it.
        start: what the parent said.

    Raises:
        ResolutionError: this process has found another platform than its parent.
        ConfigError: the configuration is not valid here.
    """
    from platform_abc.resolution_report import ResolutionReport, require_same_platform
    from reference_engine.worker_start import load_plugins

    report = platforms.resolution_report()
    require_same_platform(ResolutionReport.from_json(start.report), report)
    if start.traced:
        from platforms import current_platform

        own = trace.Trace(start.process, start.instance)
        own.note_resolution(report)
        trace.start(own, current_platform)
    load_plugins()
    config: EngineConfig = pickle.loads(start.config)  # noqa: S301 - from our own parent
    config.validate(written_by="the process that sent it")
    return serve(config, start)


def failure_text(error: BaseException) -> str:
    """Return the exception in one line, which names the hook or worker that raised it, then all that is known."""
    if isinstance(error, EngineFailed):
        return str(error)
    notes = (f"({note})" for note in getattr(error, "__notes__", ()) if isinstance(note, str))
    first = " ".join(" ".join([describe(error), *notes]).split())
    where = who_raised(error, platforms.resolved_platform())
    if where and where not in first:
        first = f"{first} (raised in {where})"
    return f"{first}\n{traceback_text(error).rstrip()}"
