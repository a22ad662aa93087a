"""A general plugin of the tests: spoils one hook of the CPU platform in one process of an engine.

Every process of an engine loads its general plugins, so the fault is there too where no fixture reaches.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "TESTS_SPOILED_HOOK"
"""`{"hook": …, "how": …, "process": …}` as JSON, `how` one of `WAYS` or `nonsense`; `late raise` and so on spare the
first calls."""


class Unusual(BaseException):
    """What `except Exception` lets pass, and what cannot say what it is."""

    def __str__(self) -> str:
        raise SystemExit(9)


def _raise(error: BaseException) -> None:
    raise error


def _hang() -> None:
    while True:
        time.sleep(60)


WAYS: dict[str, Callable[[], object]] = {
    "raise": lambda: _raise(KeyError("seeded")),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "unusual": lambda: _raise(Unusual()),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": _hang,
    # Python's own matching of patterns keeps the interpreter until it has tried all ways to fail.
    "keep": lambda: re.match(r"(a+)+$", "a" * 60 + "b"),
    "nonsense": lambda: None,
}


def process_name() -> str:
    """Which process of the engine this is: `front end`, `engine core`, `worker` or `worker 1`."""
    import multiprocessing

    if os.environ.get("TESTS_FRONT_END") == str(os.getpid()):
        return "front end"
    name = multiprocessing.current_process().name
    # Ray does not start its processes by that module; the tests spoil an engine there with one worker.
    return "worker" if name == "MainProcess" else name


def spoil() -> None:
    """Replace the hook, if this is the process."""
    wanted: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
    if not wanted or wanted["process"] != process_name():
        return
    from platforms.cpu import CpuPlatform

    name = wanted["hook"]
    how = wanted["how"].removeprefix("late ")
    fine = getattr(CpuPlatform, name)
    calls: list[int] = []

    def hook(_cls: type, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if wanted["how"] != how and len(calls) < 20:
            return fine(*args, **kwargs)
        WAYS[how]()
        return object()

    setattr(CpuPlatform, name, classmethod(hook))


def install(folder: Path) -> None:
    """Write the metadata of a distribution with this plugin into a folder of the search path."""
    info = folder / "tests_spoiler-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tests-spoiler\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[platform_abc.general_plugins]\nspoiler = {__name__}:spoil\n")
