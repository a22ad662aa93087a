"""A child process that answers calls: started by spawn, watched while it works, ended with its parent.

The child resolves the platform again and refuses to work on another one than its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from platform_abc.timeline import Process

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

START_SECONDS: Final = 120.0
"""Longest wait for a child to start, which includes the import of torch."""

CALL_SECONDS: Final = 120.0
"""Longest wait for one answer."""

END_SECONDS: Final = 10.0
"""Longest wait for a child to end by itself."""

GRACE_SECONDS: Final = 5.0
"""So much longer than the child itself its parent waits, which can then tell where the child hangs."""

ORPHAN_SECONDS: Final = 2.0
"""Longest life of a child whose parent is gone."""


class ProcessFailed(RuntimeError):
    """A child process raised, died, or did not answer; the text says which process and why."""


@attrs.frozen(kw_only=True)
class ChildStart:
    """What a child is started with; it is pickled.

    Args:
        process: which process of the engine it is.
        config: the pickled configuration.
        report: the parent's resolution report, as JSON.
        seconds: longest time that its start may take.
        traced: note what is asked of the platform.
        instance: tells two children of one kind apart.
    """

    process: Process
    config: bytes
    report: str
    seconds: float = START_SECONDS
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
        broken = [path for name, part in vars(config).items() for path in _unpicklable(name, part)]
        raise TypeError(
            f"the configuration cannot be sent to another process: {', '.join(broken) or 'it'} does not pickle "
            f"({type(error).__name__}: {error}); a config hook must not put such values there"
        ) from error


def _unpicklable(path: str, value: object, depth: int = 0) -> list[str]:
    """Return the paths of what does not pickle, as deep within parts and dicts as it can be told."""
    if _pickles(value):
        return []
    held: object = getattr(value, "__dict__", None)
    inner: object = cast("object", value) if isinstance(value, dict) else held
    found: list[str] = []
    if isinstance(inner, dict) and depth < 8:
        for name, item in cast("Mapping[object, object]", inner).items():
            found += _unpicklable(f"{path}.{name}", item, depth + 1)
    return found or [path]


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
        # An engine that nobody closed must not keep the interpreter from ending: multiprocessing waits for
        # children at exit, but it was registered before, so it comes after this.
        atexit.register(self.close)
        try:
            self._receive("start", start.seconds)
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
            self._connection.send((name, args, seconds))
        except OSError as error:
            raise ProcessFailed(self._obituary(name)) from error
        except Exception as error:
            raise ProcessFailed(
                f"the arguments of {name!r} cannot be sent to the {self.name} process: "
                f"{type(error).__name__}: {error}"
            ) from error
        return self._receive(name, seconds)

    def _receive(self, name: str, seconds: float) -> Any:
        try:
            ok, value = self._wait(name, seconds)
        except BaseException:
            # A late answer would be taken for that of the next call.
            self._process.kill()
            raise
        if ok:
            return value
        raise ProcessFailed(f"the {self.name} process failed in {name!r}: {value}")

    def _wait(self, name: str, seconds: float) -> tuple[bool, Any]:
        until = time.monotonic() + seconds + GRACE_SECONDS
        while not self._connection.poll(min(0.2, max(0.0, until - time.monotonic()))):
            if not self._process.is_alive() and not self._connection.poll(0):
                raise ProcessFailed(self._obituary(name))
            if time.monotonic() >= until:
                raise ProcessFailed(f"the {self.name} process did not answer {name!r} within {seconds:g} s")
        try:
            answer: tuple[bool, Any] = self._connection.recv()
        except (EOFError, OSError) as error:
            raise ProcessFailed(self._obituary(name)) from error
        except Exception as error:
            raise ProcessFailed(
                f"the answer of the {self.name} process to {name!r} cannot be read: {type(error).__name__}: {error}"
            ) from error
        return answer

    def _obituary(self, name: str) -> str:
        self._process.join(END_SECONDS)
        code = self._process.exitcode
        how = f"on signal {-code}" if code is not None and code < 0 else f"with status {code}"
        text = f"the {self.name} process ended {how} without an answer to {name!r}"
        if name == "start" and code == 1:
            # It says why it cannot start, so this one never came to that.
            text += (
                "; it could not import the main script again (its own output tells why): "
                'a script starts an engine under `if __name__ == "__main__":` only'
            )
        return text

    def close(self) -> None:
        """End the process; one that does not end by itself is killed. Calling it again does nothing."""
        atexit.unregister(self.close)
        self._connection.close()
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class _Line:
    """The child's end of the connection; each call is answered once, also where it does not end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._main_thread = threading.get_ident()
        self._sending = threading.Lock()

    def receive(self) -> tuple[str, tuple[Any, ...], float]:
        """Return the next call: its name, its arguments and its time limit in seconds.

        Raises:
            EOFError: the parent has closed the connection or is gone.
        """
        call: tuple[str, tuple[Any, ...], float] = self._connection.recv()
        return call

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Generator[None]:
        """Give up, and say where, if the `with` block has not ended in time; the process ends then."""
        timer = threading.Timer(seconds, self._give_up, (seconds,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self, seconds: float) -> None:
        # The documented way to another thread's stack, in spite of its name.
        frame = sys._current_frames()[self._main_thread]  # pyright: ignore[reportPrivateUsage]
        where = "".join(traceback.format_stack(frame)).rstrip()
        self.send(False, f"no end within {seconds:g} s; it was here:\n{where}")
        os._exit(1)

    def send(self, ok: bool, value: Any) -> None:
        """Answer the call; an answer that does not pickle is a failure that says so."""
        with self._sending, contextlib.suppress(BrokenPipeError):
            try:
                self._connection.send((ok, value))
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - pickling runs foreign code
                self._connection.send((False, f"its answer does not pickle: {type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    """Let this process end soon after its parent, whatever it is doing then."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        time.sleep(ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _main(connection: Connection, serve: Serve, start: ChildStart) -> None:
    """Run the child: agree on the platform, check the configuration, answer until the parent is gone."""
    # An interrupt goes to the whole group; the parent decides and closes the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    line = _Line(connection)
    try:
        with line.limited(start.seconds):
            handler = _prepare(serve, start)
    except BaseException as error:
        line.send(False, _text(error))
        raise SystemExit(1) from error
    line.send(True, None)
    while True:
        try:
            name, args, seconds = line.receive()
        except EOFError:
            handler("close", ())
            return
        try:
            with line.limited(seconds):
                ok, value = True, handler(name, args)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - sent to the parent, which raises it
            ok, value = False, _text(error)
        line.send(ok, value)


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
    """Return the exception in one line, then all that is known of it."""
    first = "".join(traceback.format_exception_only(error)).strip().split("\n", 1)[0]
    return f"{first}\n{''.join(traceback.format_exception(error)).rstrip()}"
