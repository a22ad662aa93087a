"""The parent's side of a child process: started by spawn, asked, and ended whatever it does."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from typing import Any, Final, Self

from platform_abc.foreign import describe
from platform_abc.hooks.silence import POLL_SECONDS, Silence
from platform_abc.hooks.watch import EngineFailed
from reference_engine.processes.child_side import Loop, Serve, run_child
from reference_engine.processes.child_start import ChildStart

CALL_SECONDS: Final = 120.0
"""Longest wait for one answer."""

END_SECONDS: Final = 4.0
"""Longest wait for a child to end by itself; twice as long for one that has children."""

GRACE_SECONDS: Final = 5.0
"""So much longer than the child itself its parent waits, which can then tell where the child hangs."""

_MOMENT: Final = 0.3
"""So long a complaint waits for that of another process, which may be its cause."""


class ProcessFailed(EngineFailed):
    """A child process raised, died, or did not answer; the text says which process and why."""


class ProcessDied(ProcessFailed):
    """A child process ended without an answer."""


class CallFailed(ProcessFailed):
    """A child process answered that it could not do what it was asked; it can be asked again."""


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
        self._process = context.Process(target=run_child, args=(theirs, serve, start), name=self.name)
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
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
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
        if last := self._silence.last_words():
            return ProcessDied(f"{text}, {last}")
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
