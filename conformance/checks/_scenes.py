"""Scenes: functions that each run in a fork of this interpreter, so that one import serves many of them.

A scene finds what the interpreter had imported when it was forked, and nothing that another scene did.
The module imports the standard library alone, so that a fork of a bare interpreter is bare.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from conformance.isolation.forked import leave

Scene = Callable[[], Any]
"""Returns JSON values."""

_CHUNK: Final = 65536


def play(scenes: Mapping[str, Scene], limit: float, at_once: int = 1) -> dict[str, dict[str, Any]]:
    """Run scenes, each in a fork.

    Args:
        scenes: by name, in the order in which they start.
        limit: seconds that each may take.
        at_once: how many run beside each other.

    Returns:
        By name `{"said": what it returned}`, `{"raised": text, "place": file:line, "files": […]}` for an
        exception, or `{"died": how}` for a process that left, crashed or hung.
    """
    waiting, found = list(scenes), dict[str, dict[str, Any]]()
    running: dict[int, tuple[str, int, float, bytearray]] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            pid, reader = _start(scenes[name])
            running[reader] = (name, pid, time.monotonic() + limit, bytearray())
        ready, _, _ = select.select(list(running), [], [], 0.5)
        for reader, (name, pid, until, data) in list(running.items()):
            chunk = os.read(reader, _CHUNK) if reader in ready else None
            if chunk:
                data.extend(chunk)
                continue
            if chunk is None and time.monotonic() < until:
                continue
            found[name] = _end(pid, bytes(data), limit if chunk is None else None)
            os.close(reader)
            del running[reader]
    return found


def _start(scene: Scene) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        os.close(reader)
        process = os.getpid()
        told = _told(scene)
        if os.getpid() == process:  # not a copy that the platform forked
            _write(writer, json.dumps(told).encode())
    finally:
        leave(0)


def _told(scene: Scene) -> dict[str, Any]:
    try:
        return {"said": scene()}
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        return {
            "raised": spell(error),
            "place": f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "",
            "files": [one.filename for one in frames],
        }


def _write(writer: int, data: bytes) -> None:
    while data:
        data = data[os.write(writer, data) :]


def _end(pid: int, data: bytes, late: float | None) -> dict[str, Any]:
    if late is not None:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if late is not None:
        return {"died": f"did not end within {late:g} s"}
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        code = os.waitstatus_to_exitcode(status)
        return {"died": f"was ended by signal {-code}" if code < 0 else f"exited with status {code}"}
    return answer


def spell(error: BaseException) -> str:
    """An error in one line."""
    try:
        text = " ".join(str(error).split())[:600]
    except Exception as second:
        text = f"(its text raises {type(second).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
