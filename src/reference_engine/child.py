"""A child process that answers calls: started by spawn, watched while it works, ended with its parent.

The child resolves the platform again and refuses to work on another one than its parent.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

import attrs

from platform_abc.timeline import Process

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from platform_abc.timeline_trace import Seen

START_SECONDS: Final = 120.0
"""Longest wait for a child to start, which includes the import of torch."""

CALL_SECONDS: Final = 120.0
"""Longest wait for one answer."""

END_SECONDS: Final = 10.0
"""Longest wait for a child to end by itself."""


class ProcessFailed(RuntimeError):
    """A child process raised, died, or did not answer; the text says which process and why."""


@attrs.frozen(kw_only=True)
class ChildStart:
    """What a child is started with; it is pickled.

    Args:
        process: which process of the engine it is.
        config: the pickled configuration.
        report: the parent's resolution report, as JSON.
        traced: note what is asked of the platform.
        instance: tells two children of one kind apart.
    """

    process: Process
    config: bytes
    report: str
    traced: bool = False
    instance: int = 0


def pickle_config(config: EngineConfig) -> bytes:
    """Pickle a configuration for another process.

    Raises:
        TypeError: something in it does not pickle; the message names the part.
    """
    try:
        return pickle.dumps(config)
    except Exception as error:
        broken = [name for name, part in vars(config).items() if not _pickles(part)]
        raise TypeError(
            f"the configuration cannot be sent to another process: {', '.join(broken) or 'it'} does not pickle "
            f"({type(error).__name__}: {error}); a config hook must not put such values there"
        ) from error


def _pickles(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling runs foreign code
        return False
    return True


Handler = Callable[[str, tuple[Any, ...]], Any]
"""Answers one call: its name and its arguments."""

Serve = Callable[["EngineConfig", ChildStart], Handler]
"""Makes the handler, in the child, once the platform agrees and the configuration is valid."""


class Child:
    """One child process.

    Args:
        serve: a function of a module, which makes the child's handler.
        start: what the child is started with.

    Raises:
        ProcessFailed: it did not come up.
    """

    def __init__(self, serve: Serve, start: ChildStart) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = start.process.value
        self._connection, theirs = context.Pipe()
        # Not a daemon: the engine core starts workers of its own.
        self._process = context.Process(target=_main, args=(theirs, serve, start), name=self.name)
        self._process.start()
        theirs.close()
        self._trace: list[Seen] = []
        try:
            self._receive("start", START_SECONDS)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """The process runs."""
        return self._process.is_alive()

    def call(self, name: str, *args: Any, seconds: float = CALL_SECONDS) -> Any:
        """Ask the child and wait for its answer.

        Args:
            name: what to do.
            *args: its arguments, which are pickled.
            seconds: longest wait.

        Raises:
            ProcessFailed: the child raised, died or did not answer in time.
        """
        try:
            self._connection.send((name, args))
        except (BrokenPipeError, OSError) as error:
            raise ProcessFailed(self._obituary(name)) from error
        return self._receive(name, seconds)

    def _receive(self, name: str, seconds: float) -> Any:
        until = time.monotonic() + seconds
        while not self._connection.poll(min(0.2, max(0.0, until - time.monotonic()))):
            if not self._process.is_alive() and not self._connection.poll(0):
                raise ProcessFailed(self._obituary(name))
            if time.monotonic() >= until:
                raise ProcessFailed(f"the {self.name} process did not answer {name!r} within {seconds:g} s")
        try:
            ok, value = self._connection.recv()
        except EOFError as error:
            raise ProcessFailed(self._obituary(name)) from error
        if ok:
            return value
        raise ProcessFailed(f"the {self.name} process failed in {name!r}:\n{value}")

    def _obituary(self, name: str) -> str:
        self._process.join(END_SECONDS)
        code = self._process.exitcode
        how = f"on signal {-code}" if code is not None and code < 0 else f"with status {code}"
        return f"the {self.name} process ended {how} without an answer to {name!r}"

    def close(self) -> None:
        """End the process; one that does not end by itself is killed."""
        self._connection.close()
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _main(connection: Connection, serve: Serve, start: ChildStart) -> None:
    """Run the child: agree on the platform, check the configuration, answer until the parent is gone."""
    # An interrupt goes to the whole group; the parent decides and closes the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        handler = _prepare(serve, start)
    except BaseException as error:
        connection.send((False, _text(error)))
        raise SystemExit(1) from error
    connection.send((True, None))
    while True:
        try:
            name, args = connection.recv()
        except EOFError:
            handler("close", ())
            return
        try:
            answer: tuple[bool, Any] = (True, handler(name, args))
        except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
            answer = (False, _text(error))
        connection.send(answer)


def _prepare(serve: Serve, start: ChildStart) -> Handler:
    import platforms
    from platform_abc.resolution_report import ResolutionReport, require_same_platform
    from reference_engine.trace import Trace, record
    from reference_engine.worker_start import load_plugins

    report = platforms.resolution_report()
    require_same_platform(ResolutionReport.from_json(start.report), report)
    trace = Trace(start.process, start.instance)
    # Kept by the handler below, so the trace runs as long as the process.
    recording = contextlib.ExitStack()
    if start.traced:
        from platforms import current_platform

        trace.note_resolution(report)
        recording.enter_context(record(trace, current_platform))
    load_plugins()
    config: EngineConfig = pickle.loads(start.config)  # noqa: S301 - from our own parent
    config.validate(written_by="the process that sent it")
    handler = serve(config, start)

    def answer(name: str, args: tuple[Any, ...]) -> Any:
        if name == "close":
            recording.close()
        return list(trace.seen) if name == "trace" else handler(name, args)

    return answer


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
