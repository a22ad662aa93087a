"""Runs a task beside those that follow: a fork of the host supervises it and keeps the answer until asked."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable
from pathlib import Path

import attrs

from conformance.isolation import reaper
from conformance.isolation.died import ChildDied, from_status
from conformance.isolation.forked import Ended, Extend, Forker, ParentGone, Task, leave
from conformance.isolation.wire import Closed, Inbox, Message, encode, write_all

# Kept at the start: platforms replace functions of `os`.
_take = os.read
_CHUNK = 65536


@attrs.define
class Early:
    """A task that runs already.

    Args:
        pid: of its supervisor.
        reader: becomes readable with the supervisor's messages.
        life: the supervisor ends when it is closed, so also when this process dies.
    """

    pid: int
    reader: int
    life: int

    def wait(self, control: int, on_extend: Extend) -> Ended:
        """Wait for the task's end.

        Args:
            control: a descriptor that becomes readable at end-of-file when the asking process is gone.
            on_extend: told when the task waits for another process.

        Raises:
            ParentGone: the asking process has ended.
        """
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        poll.register(control, select.POLLHUP)
        inbox = Inbox()
        try:
            while True:
                ready = dict(poll.poll())
                if ready.get(control, 0) & (select.POLLHUP | select.POLLERR):
                    raise ParentGone
                data = _take(self.reader, _CHUNK)
                for message in inbox.feed(data):
                    if "extend" in message:
                        on_extend(float(message["extend"]))
                    else:
                        return _ended(message)
                if not data:
                    status = reaper.collect(self.pid, within=1.0) or 0
                    return Ended(None, from_status(os.waitstatus_to_exitcode(status)), "")
        except Closed:
            return Ended(None, ChildDied("exit", "unknown"), "")
        finally:
            self.close()

    def close(self) -> None:
        """End the supervisor and what it runs."""
        os.close(self.life)
        reaper.kill_tree(self.pid)
        reaper.collect(self.pid, within=1.0)
        os.close(self.reader)


def begin(task: Task, limit: float, scratch: Path, close: Callable[[], None]) -> Early:
    """Start a task under a supervisor of its own.

    Args:
        task: as for `Forker.run`.
        limit: seconds after which the task is ended.
        scratch: a folder for output.
        close: closes in the supervisor what belongs to this process alone.
    """
    reader, writer = os.pipe()
    watched, life = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        os.close(watched)
        return Early(pid, reader, life)
    try:
        os.setsid()
        os.close(reader)
        os.close(life)
        close()
        reaper.adopt_orphans()

        def alone(extend: Extend) -> Message:
            os.close(writer)  # the answer goes through the supervisor
            return task(extend)

        forker = Forker(
            scratch,
            control=watched,
            thorough=True,
            on_extend=lambda seconds: write_all(writer, encode({"extend": seconds})),
        )
        write_all(writer, encode(_message(forker.run(alone, limit))))
    finally:
        with contextlib.suppress(BaseException):
            reaper.sweep(keep=set())
        leave(0)


def _message(ended: Ended) -> Message:
    died = None if ended.died is None else [ended.died.how, ended.died.detail]
    return {"answer": ended.answer, "died": died, "output": ended.output, "left": ended.left}


def _ended(message: Message) -> Ended:
    died = None if message["died"] is None else ChildDied(*message["died"])
    return Ended(message["answer"], died, message["output"], message["left"])
