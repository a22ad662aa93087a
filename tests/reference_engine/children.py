"""What test children do: functions that a spawned process imports by name."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from typing import Any

from platform_abc.config import EngineConfig
from platform_abc.hooks import trace
from reference_engine.processes.child_side import Loop, answer_calls
from reference_engine.processes.child_start import ChildStart


class Unreadable:
    """Pickles, but does not come back."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


def serve_all(config: EngineConfig, start: ChildStart) -> Loop:
    """Answer, raise, die or hang, as asked."""

    def answer(name: str, args: tuple[Any, ...]) -> Any:
        if name == "echo":
            return (config.instance_id, *args)
        if name == "trace":
            return trace.moments()
        if name == "raise":
            raise ValueError("seeded fault")
        if name == "exit":
            os._exit(0)
        if name == "leave":
            sys.exit(3)
        if name == "lock":
            return threading.Lock()
        if name == "unreadable":
            return Unreadable()
        if name == "hang":
            time.sleep(600)
        return None

    return functools.partial(answer_calls, answer)


def serve_nothing(config: EngineConfig, start: ChildStart) -> Loop:
    """Fail while starting."""
    raise RuntimeError("no device today")
