"""Facts about booting an engine: however it ends, the run ends in time and tells what happened."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conformance.engines.boot import Boot
from conformance.isolation.environment import child_environment, import_path
from conformance.isolation.fresh import Starter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are followed through /proc")

DRIVES = "tests.conformance.engines.boot_drives"
ROOT = str(Path(__file__).parents[3])


def boot(folder: Path, drive: str, seconds: float = 30.0) -> Boot:
    path = [ROOT, *import_path()]
    starter = Starter(path, child_environment(folder, path), folder, 60.0)
    settings: dict[str, Any] = {
        "engine": "native",
        "drive": f"{DRIVES}:{drive}",
        "layout": "one-process",
        "module": DRIVES,
        "qualname": "None",
        "seconds": seconds,
        "environment": {"PLATFORM_ABC_PLUGINS": "conformance_boot", "HOME": None},
        "patience": 2.0,
    }
    return Boot(**starter.fresh("conformance.engines.boot:run", settings))


def test_a_good_run_answers_and_leaves_nothing(tmp_path: Path) -> None:
    """What the engine's driver returns comes back; nothing is left of the run."""
    found = boot(tmp_path, "good")
    assert (found.ended, found.status) == ("answered", 0)
    assert found.result == {"answer": {"layout": "one-process"}, "memory": []}
    assert (found.left, found.memory, found.stacks) == ([], [], {})
    assert [event["name"] for event in found.events] == ["start", "closing"]
    assert not list((tmp_path / "tmp").glob("boot-*"))


def test_an_exception_comes_back_with_what_is_behind_it(tmp_path: Path) -> None:
    """The chain, the kinds and the frames are told, so that a hook can be found in them."""
    error = boot(tmp_path, "raises").result["error"]
    assert error["chain"] == ["RuntimeError: the engine failed", "KeyError: 'one-process'"]
    assert "LookupError" in error["kinds"]
    assert any("boot_drives.py" in frame and frame.endswith(":raises") for frame in error["frames"])


def test_a_hang_ends_and_says_where(tmp_path: Path) -> None:
    """The limit holds, and every thread's stack is there."""
    started = time.monotonic()
    found = boot(tmp_path, "hangs", seconds=4.0)
    assert time.monotonic() - started < 30
    assert (found.ended, found.status) == ("hung", None)
    assert "in hangs" in found.stacks["front end"]


def test_a_process_that_leaves_is_told_by_its_status(tmp_path: Path) -> None:
    """Neither `os._exit` nor a crash is taken for an answer; a crash prints where it was."""
    left = boot(tmp_path, "leaves")
    assert (left.ended, left.status, left.result) == ("died", 3, {})
    crashed = boot(tmp_path, "crashes")
    assert (crashed.ended, crashed.status) == ("died", -11)
    assert "in crashes" in crashed.output


def test_a_front_end_that_waits_for_a_dead_process_is_stuck(tmp_path: Path) -> None:
    """It is not waited for until the limit, as an engine may do for ever."""
    found = boot(tmp_path, "waits_for_the_dead", seconds=50.0)
    assert found.ended == "stuck"
    assert found.seconds < 30
    assert {event["process"] for event in found.events} == {"front end", "engine core"}


@pytest.mark.deep
def test_what_outlives_the_engine_is_found_and_ended(tmp_path: Path) -> None:
    """A process in a session of its own and shared memory; both are gone afterwards."""
    found = boot(tmp_path, "leaves_process")
    assert found.ended == "answered"
    (left,) = found.left
    assert "time.sleep(300)" in left
    assert not Path(f"/proc/{left.split()[0]}").exists()
    (memory,) = boot(tmp_path, "leaves_memory").memory
    assert memory.startswith("/dev/shm/psm_")
    assert not os.path.exists(memory)


def test_memory_that_a_process_still_takes_down_is_not_left(tmp_path: Path) -> None:
    """An engine's processes may end after it, later than usual where the machine is busy."""
    found = boot(tmp_path, "ends_slowly")
    assert (found.ended, found.left, found.memory) == ("answered", [], [])


def test_an_interpreter_that_does_not_end_lingers(tmp_path: Path) -> None:
    """The engine has answered and is closed; a thread keeps its process."""
    found = boot(tmp_path, "leaves_thread")
    assert found.ended == "lingered"
    assert found.result["answer"] == {"layout": "one-process"}
    assert "in hangs" in found.stacks["front end"]
