"""Stand-ins for engines, which the tests of a boot drive: right ones, and each way to end badly."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from multiprocessing.shared_memory import SharedMemory
from typing import Any

from conformance.engines.front_boot import CLOSING
from conformance.engines.hooks_boot import note


def good(layout: str) -> dict[str, Any]:
    """Answer."""
    note(CLOSING, "step")
    return {"layout": layout}


def raises(layout: str) -> dict[str, Any]:
    """Raise, over another error."""
    try:
        raise KeyError(layout)
    except KeyError as error:
        raise RuntimeError("the engine failed") from error


def hangs(layout: str) -> dict[str, Any]:
    """Wait for ever."""
    note("check_and_update_config", "call")
    while True:
        time.sleep(0.1)


def leaves(layout: str) -> dict[str, Any]:
    """Leave without a word."""
    os._exit(3)


def crashes(layout: str) -> dict[str, Any]:
    """Read what is not there."""
    import ctypes

    return {"text": ctypes.string_at(0)}


def _part() -> None:
    note("check_and_update_config", "call")
    os._exit(1)


def waits_for_the_dead(layout: str) -> dict[str, Any]:
    """Wait for an engine core that is gone."""
    process = multiprocessing.get_context("spawn").Process(target=_part, name="EngineCore")
    process.start()
    process.join()
    return hangs(layout)


def leaves_process(layout: str) -> dict[str, Any]:
    """Start a process in a session of its own, and forget it."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
    return good(layout)


def leaves_memory(layout: str) -> dict[str, Any]:
    """Share memory, and forget it."""
    from multiprocessing import resource_tracker

    memory = SharedMemory(create=True, size=4096)
    resource_tracker.unregister(f"/{memory.name}", "shared_memory")
    time.sleep(0.6)
    return good(layout)


def leaves_thread(layout: str) -> dict[str, Any]:
    """Start a thread that never ends."""
    threading.Thread(target=hangs, args=(layout,)).start()
    return good(layout)


def _slow_to_end(name: str) -> None:
    memory = SharedMemory(name)
    time.sleep(3.5)
    memory.close()
    memory.unlink()


def ends_slowly(layout: str) -> dict[str, Any]:
    """Close the engine while a process of it still takes its memory down, as on a busy machine."""
    memory = SharedMemory(create=True, size=1 << 16)
    multiprocessing.get_context("spawn").Process(target=_slow_to_end, args=(memory.name,)).start()
    time.sleep(0.5)
    memory.close()
    note(CLOSING, "step")
    return {}
