"""Copies of an open host, one for each worker of pytest-xdist: a fork instead of an import of the engine."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.isolation import reaper
from conformance.isolation.forked import ParentGone, capture, leave, lift
from conformance.isolation.wire import Channel, Closed, Message

_LONGEST: Final = 100
"""Bytes that the name of a socket may have everywhere."""
_TICK: Final = 1.0
_PAUSE: Final = 0.005


def listen(scratch: Path) -> socket.socket | None:
    """Make the socket at which workers ask for a copy; None where its name would be too long."""
    place = str(scratch / "host")
    if len(os.fsencode(place)) > _LONGEST:
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(place)
    listener.listen(64)
    return listener


def hand_out(
    listener: socket.socket, channel: Channel, scratch: Path, serve: Callable[[Channel], None]
) -> None:
    """Fork a copy of this process for each worker that connects, until the asking process is gone.

    Args:
        listener: from `listen`.
        channel: to the asking process, which has nothing more to say.
        scratch: a folder for output.
        serve: what a copy does with the channel to its worker until that closes it.

    Raises:
        Closed: the asking process is gone.
    """
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    poll.register(channel.descriptor, select.POLLIN | select.POLLHUP)
    while True:
        ready = dict(poll.poll(_TICK * 1000))
        if channel.descriptor in ready:
            channel.receive()  # raises, since the other side only ever closes it
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            if os.fork() == 0:
                _be_copy(listener, channel, connection, scratch, serve)
            connection.close()
        _collect()


def _be_copy(
    listener: socket.socket,
    channel: Channel,
    connection: socket.socket,
    scratch: Path,
    serve: Callable[[Channel], None],
) -> None:
    try:
        os.setsid()
        reaper.adopt_orphans()
        listener.close()
        channel.close()
        printed = scratch / f"output-copy-{os.getpid()}"
        capture(printed)
        ours = Channel(lift(connection.detach()))
        with contextlib.suppress(Closed, ParentGone):
            ours.send({"pid": os.getpid(), "output": str(printed)})
            serve(ours)
        reaper.sweep(keep=set())
    finally:
        leave(0)


def _collect() -> None:
    """Collect the copies that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


@attrs.define
class Copy:
    """A copy as its worker sees it: a process that is no child of ours, in the manner of `Popen`.

    Args:
        pid: its id.
    """

    pid: int

    def poll(self) -> int | None:
        """None while it runs. How it ended only its parent knows; 0 stands for that."""
        return None if reaper.runs(self.pid) else 0

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            TimeoutError: it still runs.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError
            time.sleep(_PAUSE)
        return 0

    def send_signal(self, number: int) -> None:
        """Send it a signal.

        Raises:
            ProcessLookupError: it has ended.
        """
        os.kill(self.pid, signal.Signals(number))


def ask_for(place: str, until: float) -> tuple[Copy, Channel, Path] | None:
    """Ask a template for a copy of it.

    Args:
        place: of its socket.
        until: a moment of `time.monotonic`.

    Returns:
        The copy, the channel to it and the file of its output; None if there is no copy to be had, as for a
        worker on another machine.
    """
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        ours.connect(place)
    except OSError:
        ours.close()
        return None
    channel = Channel(ours.detach())
    try:
        hello: Message = channel.receive(until)
    except (Closed, TimeoutError):
        channel.close()
        return None
    known: Any = hello
    return Copy(int(known["pid"])), channel, Path(str(known["output"]))
