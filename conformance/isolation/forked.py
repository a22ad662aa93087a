"""Runs one task in a child forked from this process: a time limit, a sentinel, its output kept apart."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import secrets
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import attrs

from conformance.isolation import reaper
from conformance.isolation.died import ChildDied, from_status, timed_out
from conformance.isolation.wire import Closed, Inbox, Message, encode, write_all

Extend = Callable[[float], None]
"""Called in the child: the next so many seconds belong to a process that it waits for."""
Task = Callable[[Extend], Message]

CAN_FORK: Final = hasattr(os, "fork") and sys.platform != "darwin"
"""On macOS the system's own libraries do not survive a fork."""

# Kept at the start: platforms replace functions of `os`.
_exit = os._exit  # pyright: ignore[reportPrivateUsage]
_state = os.fstat
_print = os.write
_take = os.read

_LARGEST_OUTPUT: Final = 16 * 1024 * 1024
_TAIL: Final = 4000
_GRACE: Final = 2.0
_TICK: Final = 0.25
_HIGHEST: Final = 200
"""Descriptors of the kit lie above it: code that closes what it did not open counts from 3."""


class ParentGone(Exception):
    """The process that asked for the task has ended."""


@attrs.frozen
class Ended:
    """How a task ended.

    Args:
        answer: what it returned; None if it died.
        died: how it died; None if it answered.
        output: the last lines that it printed.
        left: how many processes it left behind, now ended.
    """

    answer: Message | None
    died: ChildDied | None
    output: str
    left: int = 0


@attrs.define
class Forker:
    """What every task of one process shares.

    Args:
        scratch: a folder for output files.
        control: a descriptor that becomes readable at end-of-file when the asking process is gone;
            closed in the children. None if there is none.
        thorough: end everything that a task leaves behind, not only its process group; for a process
            that has no other business.
        on_start: told the id of each child.
        on_extend: told when a child waits for another process, with the seconds that this may take.
    """

    scratch: Path
    control: int | None = None
    thorough: bool = False
    on_start: Callable[[int], None] = attrs.field(default=lambda pid: None)
    on_extend: Extend = attrs.field(default=lambda seconds: None)

    def run(self, task: Task, limit: float) -> Ended:
        """Run a task in a child and wait for it.

        Args:
            limit: seconds after which the child is ended.

        Raises:
            ParentGone: the asking process ended meanwhile.
        """
        token = secrets.token_hex(8)
        printed = self.scratch / f"output-{token}"
        spare = self.scratch / f"answer-{token}"
        keep = reaper.children(os.getpid()) if self.thorough else set[int]()
        self._own_children()
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns that a fork keeps one thread only; the kit's process has one.
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            self._be_child(task, token, writer, reader, printed, spare)
        os.close(writer)
        try:
            self.on_start(pid)
            answer, status, late = self._watch(pid, reader, token, limit, printed)
        finally:
            os.close(reader)
            reaper.kill_group(pid)
            reaper.collect(pid, within=5.0)
            left = reaper.sweep(keep) if self.thorough else 0
        output = tail(printed)
        if answer is None:
            answer = _spare_answer(spare, token)
        for file in (printed, spare):
            with contextlib.suppress(OSError):
                file.unlink()
        if answer is not None:
            return Ended(answer["answer"], None, output, left)
        died = timed_out(late, output) if late else from_status(os.waitstatus_to_exitcode(status), output)
        return Ended(None, died, output, left)

    def _watch(
        self, pid: int, reader: int, token: str, limit: float, printed: Path
    ) -> tuple[Message | None, int, float]:
        """Wait for the answer and the end of the child.

        Returns:
            The answer's message, the status, and the limit in seconds if that is what ended the child.
        """
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        if self.control is not None:
            poll.register(self.control, select.POLLHUP)
        ender = _open_pid(pid)
        if ender is not None:
            poll.register(ender, select.POLLIN)
        inbox = Inbox()
        answer: Message | None = None
        deadline = time.monotonic() + limit
        allowed = limit
        piped = True
        try:
            while True:
                tick = _TICK if ender is not None else 0.005
                ready = dict(poll.poll(max(0.0, min(tick, deadline - time.monotonic())) * 1000))
                if self.control is not None and ready.get(self.control, 0) & (
                    select.POLLHUP | select.POLLERR
                ):
                    raise ParentGone
                if piped and reader in ready:
                    messages, piped = _read(reader, inbox)
                    if not piped:
                        poll.unregister(reader)
                    for message in messages:
                        if message.get("token") != token:
                            continue
                        if "extend" in message:
                            allowed = float(message["extend"])
                            deadline = time.monotonic() + allowed
                            self.on_extend(allowed)
                        elif "answer" in message:
                            answer = message
                            deadline = min(deadline, time.monotonic() + _GRACE)
                    continue
                status = reaper.collect(pid, within=0)
                if status is not None:
                    late_words = _drain(reader, inbox) if piped else []
                    answer = next(
                        (m for m in late_words if m.get("token") == token and "answer" in m), answer
                    )
                    return answer, status, 0.0
                if time.monotonic() >= deadline:
                    return (answer, 0, 0.0) if answer else (None, self._abort(pid), allowed)
                _shorten(printed)
        finally:
            if ender is not None:
                os.close(ender)

    def _own_children(self) -> None:
        """See to it that no handler of a platform collects our children before we do."""
        if self.thorough or signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _abort(self, pid: int) -> int:
        """End a child that hangs; the signal makes it print where it stands first."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
        return reaper.collect(pid, within=0.5) or 0

    def _be_child(
        self, task: Task, token: str, writer: int, reader: int, printed: Path, spare: Path
    ) -> NoReturn:
        """Be the child: set up, run, answer, leave without any exit handler."""
        try:
            os.setsid()
            os.close(reader)
            if self.control is not None:
                os.close(self.control)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            writer = lift(writer)
            identity = identify(writer)
            process = os.getpid()
            capture(printed)
            note_exits()

            def tell(message: Message) -> None:
                data = encode({"token": token, **message})
                try:
                    if not is_open(writer, identity):
                        raise OSError("the descriptor of the answer was closed")
                    write_all(writer, data)
                except OSError:
                    spare.write_bytes(data)

            answer = task(lambda seconds: tell({"extend": seconds}))
            if os.getpid() == process:  # not a copy that the platform forked
                flush()
                tell({"answer": answer})
            leave(0)
        except BaseException as error:
            with contextlib.suppress(BaseException):
                import traceback

                _print(2, "".join(traceback.format_exception(error)).encode("utf-8", "replace"))
            leave(70)


def lift(descriptor: int) -> int:
    """Move a descriptor above those that daemon-like code closes; the copy is not inherited on exec."""
    import fcntl

    try:
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGHEST)
    except OSError:
        return descriptor
    os.close(descriptor)
    return high


def capture(file: Path) -> None:
    """Send descriptors 1 and 2 to a file, read 0 from nowhere, print where a crash happened."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nowhere, 0)
    os.dup2(target, 1)
    os.dup2(target, 2)
    for one in (nowhere, target):
        if one > 2:
            os.close(one)
    faulthandler.enable(2, all_threads=True)


def note_exits() -> None:
    """Let whoever ends this process with `os._exit` print where first; processes forked from it are left alone."""
    process, plain = os.getpid(), os._exit  # pyright: ignore[reportPrivateUsage]

    def ending(status: int) -> NoReturn:
        if os.getpid() == process:
            with contextlib.suppress(Exception):
                faulthandler.dump_traceback(2)
        plain(status)

    os._exit = ending  # pyright: ignore[reportPrivateUsage]


def flush() -> None:
    """Write out what Python still holds; streams that a platform closed or replaced are left alone."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def leave(status: int) -> NoReturn:
    """End this process without exit handlers, whatever the platform did to `os._exit`.

    Where coverage measures the process it writes what it saw: it would have done so in an exit handler.
    """
    coverage = sys.modules.get("coverage")
    if coverage is not None:
        with contextlib.suppress(BaseException):
            measuring = coverage.Coverage.current()
            if measuring is not None:
                measuring.save()
    _exit(status)


def tail(file: Path) -> str:
    """The last lines of a file of output."""
    try:
        with file.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - _TAIL))
            return handle.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _shorten(file: Path) -> None:
    """Keep a flood of output from filling the disk: the file is appended to, so it may be cut."""
    with contextlib.suppress(OSError):
        if file.stat().st_size > _LARGEST_OUTPUT:
            os.truncate(file, 0)


def is_open(descriptor: int, identity: tuple[int, int]) -> bool:
    """Say whether a descriptor still is what `identify` saw; code that closes what it did not open ends that."""
    try:
        return identify(descriptor) == identity
    except OSError:
        return False


def identify(descriptor: int) -> tuple[int, int]:
    """What a descriptor is open on, apart from all others."""
    state = _state(descriptor)
    return state.st_dev, state.st_ino


def _open_pid(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has none."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _read(reader: int, inbox: Inbox) -> tuple[list[Message], bool]:
    """Read what is there; the second value is False at the end of the file."""
    data = _take(reader, 65536)
    if not data:
        return [], False
    try:
        return inbox.feed(data), True
    except Closed:
        return [], False


def _drain(reader: int, inbox: Inbox) -> list[Message]:
    """Read what an ended child had written and nobody read yet."""
    os.set_blocking(reader, False)
    found: list[Message] = []
    more = True
    while more:
        try:
            messages, more = _read(reader, inbox)
        except BlockingIOError:
            break
        found += messages
    return found


def _spare_answer(file: Path, token: str) -> Message | None:
    """The answer of a child whose pipe was closed under it."""
    try:
        messages = Inbox().feed(file.read_bytes())
    except (OSError, Closed):
        return None
    return next((one for one in messages if one.get("token") == token and "answer" in one), None)
