"""A child process that answers calls: started by spawn, watched while it works, ended with its parent.

The child resolves the platform again and refuses to work on another one than its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

import attrs

from platform_abc.foreign import describe, traceback_text
from platform_abc.timeline import Process
from reference_engine import trace
from reference_engine.hook_watch import EngineFailed, HookWatch, hook_that_raised, platform_name
from reference_engine.silence import POLL_SECONDS, Silence

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

T = TypeVar("T")

START_SECONDS: Final = 120.0
"""Longest wait for a child to start, which includes the import of torch."""

CALL_SECONDS: Final = 120.0
"""Longest wait for one answer."""

END_SECONDS: Final = 4.0
"""Longest wait for a child to end by itself; twice as long for one that has children."""

GRACE_SECONDS: Final = 5.0
"""So much longer than the child itself its parent waits, which can then tell where the child hangs."""

ORPHAN_SECONDS: Final = 1.0
"""Longest life of a child whose parent is gone."""

HOOK_SECONDS: Final = 8.0
"""Longest time that a hook may take, where nobody says another."""

_MOMENT: Final = 0.3
"""So long a complaint waits for that of another process, which may be its cause."""


class ProcessFailed(EngineFailed):
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
        instance: tells two children of one kind apart: the rank of a worker.
        local_rank: the worker among those of its machine.
        init_method: where the ranks meet; empty for one rank.
        hook_seconds: longest time that a hook may take.
        folder: a folder of this engine alone, which the front end removes; empty if it has none.
        own_session: it leads a session, so that all that it starts can be found and ended.
        orphan_seconds: longest life after its parent is gone.
        ray_address: the Ray cluster to which the front end is connected; empty if it is not.
        lifeline: an end of a pipe that the front end watches: it closes when all processes are gone.
    """

    process: Process
    config: bytes
    report: str
    seconds: float = START_SECONDS
    traced: bool = False
    instance: int = 0
    local_rank: int = 0
    init_method: str = ""
    hook_seconds: float = HOOK_SECONDS
    folder: str = ""
    own_session: bool = False
    orphan_seconds: float = ORPHAN_SECONDS
    ray_address: str = ""
    lifeline: Connection | None = None

    @property
    def name(self) -> str:
        """The process's name, for messages."""
        return f"{self.process.value} {self.instance}" if self.instance else self.process.value

    @property
    def stacks(self) -> Path | None:
        """Where the child's stacks go when it stands still; None on a machine that has no folder for it."""
        return (
            Path(self.folder) / f"{self.name}.stacks" if self.folder and Path(self.folder).is_dir() else None
        )

    def of_worker(self, config: bytes, rank: int, local_rank: int, init_method: str) -> ChildStart:
        """Return how an engine core, which was started with this, starts a worker.

        Args:
            config: the pickled configuration.
            rank: the worker among all.
            local_rank: the worker among those of its machine.
            init_method: where the ranks meet.
        """
        return attrs.evolve(
            self,
            process=Process.WORKER,
            config=config,
            seconds=START_SECONDS,
            own_session=False,
            instance=rank,
            local_rank=local_rank,
            init_method=init_method,
        )


def pickle_config(config: EngineConfig) -> bytes:
    """Pickle a configuration for another process.

    Raises:
        TypeError: something in it does not pickle; the message names the part.
    """
    try:
        pickled = pickle.dumps(config)
    except Exception as error:
        broken = [path for name, part in vars(config).items() for path in _unpicklable(name, part)]
        raise TypeError(
            f"the configuration cannot be sent to another process: {', '.join(broken) or 'it'} does not pickle "
            f"({describe(error)}); a config hook must not put such values there"
        ) from error
    trace.step("the config is pickled")
    return pickled


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

Loop = Callable[["Line"], None]
"""Answers the parent until it is gone."""

Serve = Callable[["EngineConfig", ChildStart], T]
"""Makes what answers, in the child, once the platform agrees and the configuration is valid."""


class Child:
    """One child process; `ready` waits until it has started.

    Args:
        serve: a function of a module, which makes what answers the parent in the child.
        start: what the child is started with.
    """

    def __init__(self, serve: Serve[Loop], start: ChildStart) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = start.name
        self._start_seconds = start.seconds
        self._owner = os.getpid()
        # Two threads that wait for one process take the news from each other.
        self._joining = threading.Lock()
        self.connection, theirs = context.Pipe()
        # Not a daemon: the engine core starts workers of its own.
        self._process = context.Process(target=_main, args=(theirs, serve, start), name=self.name)
        # An interrupt must not meet a child that has not learned yet to leave it to the parent.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._silence = Silence(start.name, self.pid, start.stacks)
        # An engine that nobody closed must not keep the interpreter from ending: multiprocessing waits for
        # children at exit, but it was registered before, so it comes after this.
        atexit.register(self.close)

    def ready(self) -> Self:
        """Wait until the child has started.

        Raises:
            ProcessFailed: it did not come up; it is gone then.
        """
        try:
            gather([self], "start", self._start_seconds)
        except BaseException:
            self.close(0)
            raise
        return self

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """What can be waited for beside the connection: the end of the process."""
        return self._process.sentinel

    @property
    def alive(self) -> bool:
        """The process runs."""
        with self._joining:
            return self._process.is_alive()

    def send(self, name: str, args: tuple[Any, ...] = (), seconds: float = CALL_SECONDS) -> None:
        """Ask the child; `gather` waits for the answer.

        Args:
            name: what to do.
            args: its arguments, which are pickled.
            seconds: longest time that it may take.

        Raises:
            ProcessFailed: the child died, or the arguments do not pickle.
        """
        try:
            self.connection.send((name, args, seconds))
        except OSError as error:
            raise self._died(name) from error
        except Exception as error:
            raise ProcessFailed(
                f"the arguments of {name!r} cannot be sent to the {self.name} process: {describe(error)}"
            ) from error

    def take(self, name: str) -> Any:
        """Return the answer that has come to a call.

        Raises:
            ProcessFailed: the child raised or died, or its answer cannot be read.
        """
        try:
            ok, value = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died(name) from error
        except Exception as error:
            raise ProcessFailed(
                f"the answer of the {self.name} process to {name!r} cannot be read: {describe(error)}"
            ) from error
        if ok:
            return value
        raise CallFailed(f"the {self.name} process failed in {name!r}: {value}")

    def refuse_silence(self) -> None:
        """Return at once if the child may still answer; asked again every `POLL_SECONDS` while it does not.

        Raises:
            ProcessFailed: it never will; see `silence`.
        """
        cause = self._silence.cause()
        if cause:
            raise ProcessFailed(cause)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def _died(self, name: str) -> ProcessDied:
        with self._joining:
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
        return ProcessDied(text)

    def hang_up(self) -> None:
        """Close the connection, on which the child ends by itself; `close` waits for that."""
        self.connection.close()

    def close(self, seconds: float = END_SECONDS) -> None:
        """End the process; calling it again does nothing.

        Args:
            seconds: so long it may take to end by itself, then it is killed.
        """
        atexit.unregister(self.close)
        self.connection.close()
        if os.getpid() != self._owner:
            return  # a fork of the parent has no children here
        with self._joining:
            self._process.join(seconds)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()


class ProcessDied(ProcessFailed):
    """A child process ended without an answer."""


class CallFailed(ProcessFailed):
    """A child process answered that it could not do what it was asked; it can be asked again."""


def gather(children: Sequence[Child], name: str, seconds: float) -> list[Any]:
    """Wait for the answers of several children to one call.

    Args:
        children: all have been asked.
        name: what they were asked.
        seconds: longest time that they have for it.

    Returns:
        Their answers, in the order of the children.

    Raises:
        ProcessFailed: one raised, died or did not answer in time. Those that have not answered by then are killed,
            since a late answer would be taken for that of the next call.
    """
    answers: dict[Child, Any] = {}
    until = time.monotonic() + seconds + GRACE_SECONDS
    left = list(children)
    try:
        while left:
            ends = [end for child in left for end in (child.connection, child.sentinel)]
            ready = wait(ends, min(POLL_SECONDS, max(0.0, until - time.monotonic())))
            if not ready:
                for child in left:
                    child.refuse_silence()
                if time.monotonic() < until:
                    continue
                names = ", ".join(child.name for child in left)
                raise ProcessFailed(f"the {names} process did not answer {name!r} within {seconds:g} s")
            for child in [child for child in left if child.connection in ready or child.sentinel in ready]:
                try:
                    answers[child] = child.take(name)
                except CallFailed as error:
                    left.remove(child)
                    raise _first_cause(error, left, name) from error.__cause__
                left.remove(child)
    except ProcessDied as error:
        raise _first_cause(error, left, name) from error.__cause__
    finally:
        for child in left:
            child.kill()
    return [answers[child] for child in children]


def _first_cause(error: ProcessFailed, children: Sequence[Child], name: str) -> ProcessFailed:
    """Return what explains a failure: a process may only complain of the death of another.

    Args:
        error: what was told first.
        children: those that have not answered.
        name: what they were asked.
    """
    told = [error]
    if children:
        wait([child.sentinel for child in children], _MOMENT)
    for child in children:
        if child.connection.poll(0) or not child.alive:
            try:
                child.take(name)
            except ProcessFailed as other:
                told.append(other)
    return min(told, key=lambda one: ("hook " not in str(one), not isinstance(one, ProcessDied)))


class Line:
    """The child's end of the connection; each call is answered once, also where it does not end.

    Args:
        connection: to the parent.
        start: how the child was started.
    """

    def __init__(self, connection: Connection, start: ChildStart) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self.watch = HookWatch(start.name, start.hook_seconds, self._give_up, stacks=start.stacks)

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
        time.sleep(start.orphan_seconds)
        _remove_folder(start)
        for child in multiprocessing.active_children():
            child.kill()  # one that stands still would not see that its parent is gone
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _remove_folder(start: ChildStart) -> None:
    if start.process is Process.ENGINE_CORE and start.folder:
        shutil.rmtree(start.folder, ignore_errors=True)


def _main(connection: Connection, serve: Serve[Loop], start: ChildStart) -> None:
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
            handler("close", ())
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
    import platforms
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
    """Return the exception in one line, which names the hook that raised it, then all that is known of it."""
    if isinstance(error, EngineFailed):
        return str(error)
    first = describe(error)
    hook = hook_that_raised(error.__traceback__)
    if hook and hook not in first:
        first = f"{first} (raised in hook {hook} of {platform_name()})"
    return f"{first}\n{traceback_text(error).rstrip()}"
