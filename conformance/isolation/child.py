"""Starts child interpreters and ends them: the channel, the output file, the process group."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from conformance.isolation import reaper
from conformance.isolation.copies import Copy
from conformance.isolation.died import CHANNEL_LOST, ChildDied, from_status
from conformance.isolation.environment import command
from conformance.isolation.forked import tail
from conformance.isolation.wire import Channel


@attrs.define
class Child:
    """A child interpreter, its channel and its output.

    Args:
        process: the process, which leads a session of its own.
        channel: to talk to it.
        output_file: where its stdout and stderr go.
    """

    process: subprocess.Popen[bytes] | Copy
    channel: Channel
    output_file: Path

    @property
    def output(self) -> str:
        """The last lines that it printed."""
        return tail(self.output_file)

    def ended(self, within: float) -> ChildDied:
        """Wait for a child that closed its channel, end it if it stays, and say how it died."""
        with contextlib.suppress(subprocess.TimeoutExpired, TimeoutError):
            self.process.wait(within)
        code = self.process.poll()
        self.end()
        if isinstance(self.process, Copy):
            return ChildDied("exit", "unknown", output=self.output)
        return from_status(CHANNEL_LOST if code is None else code, self.output)

    def abort(self) -> str:
        """End a child that hangs; it prints where it stands first. Returns its last lines."""
        below = reaper.descendants(self.process.pid)  # which lose their parent with it
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired, TimeoutError):
            self.process.wait(0.5)
        self.end()
        for one in below:
            reaper.kill_tree(one)
        return self.output

    def end(self) -> None:
        """End the child, its group and its descendants at once."""
        collected = self.process.poll() is not None
        reaper.kill_tree(self.process.pid, collected=collected)
        self.process.wait()


def start(
    entry: str,
    settings: Mapping[str, Any],
    *,
    path: Sequence[str],
    env: Mapping[str, str],
    scratch: Path,
) -> Child:
    """Start a child interpreter.

    Args:
        entry: `host` or `call`.
        settings: JSON values for the entry.
        path: its import path.
        env: its variables.
        scratch: a folder for its output.
    """
    ours, theirs = socket.socketpair()
    output = scratch / f"output-{secrets.token_hex(8)}"
    output.touch()
    try:
        process = subprocess.Popen(
            command(entry, path, {**settings, "descriptor": theirs.fileno(), "output": str(output)}),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    finally:
        theirs.close()
    return Child(process, Channel(ours.detach()), output)


def stop(child: Child) -> None:
    """End a child, close its channel, and remove its output.

    In this order: a host that sees its channel closed takes us for dead and removes the run's folder.
    """
    child.end()
    child.channel.close()
    with contextlib.suppress(OSError):
        child.output_file.unlink()


def deadline(seconds: float) -> float:
    """The moment of `time.monotonic` that is `seconds` away."""
    return time.monotonic() + seconds
