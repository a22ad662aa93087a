"""The process that a user of the engine would have: boots the engine, generates, closes it, and ends."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from conformance.engines.boot import running_children, shared_memory
from conformance.engines.hooks_boot import FOLDER, FRONT, note, told

RESULT: Final = "result.json"
"""What was generated, or what was raised; written once the engine is closed."""

CLOSING: Final = "closing"
"""The step that is noted when everything has been generated."""

_MOMENT: Final = 2.0
"""Seconds in which shared memory may still go once the engine's other processes have ended."""

_LONGEST: Final = 10.0
"""Seconds in which these processes may end and take their shared memory with them, as on a busy machine."""


def main() -> None:
    """Run the engine's `drive` with the settings on the command line."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    os.environ[FRONT] = str(os.getpid())
    note("start", "step")
    before = shared_memory()
    result: dict[str, Any]
    module, _, name = str(settings["drive"]).partition(":")
    try:
        result = {"answer": getattr(importlib.import_module(module), name)(settings["layout"])}
    except BaseException as error:
        result = {"error": told(error)}
    # Here, because what Python tracks of it is removed when this interpreter ends, and a user's goes on.
    result["memory"] = _left(before)
    folder = Path(os.environ[FOLDER])
    (folder / "result.part").write_text(json.dumps(result, default=repr), encoding="utf-8")
    (folder / "result.part").rename(folder / RESULT)


def _left(before: set[str]) -> list[str]:
    """The shared memory that has come since and is still there a moment later."""
    started = time.monotonic()
    while left := shared_memory() - before:
        if time.monotonic() - started > (_LONGEST if _others_run() else _MOMENT):
            break
        time.sleep(0.1)
    return sorted(left)


def _others_run() -> bool:
    """Say whether a process of the engine still runs; Python's own tracker stays as long as this one."""
    return any("resource_tracker" not in command for command in running_children(collect=False).values())
