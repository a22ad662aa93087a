"""Fresh interpreters: their number, what they leave behind, their ends, and answers that checks share."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says what a process leaves behind"
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of the scenes, which are played once, in a process of their own."""
    folder = tmp_path_factory.mktemp("scenes")
    command = [sys.executable, "-m", "tests.conformance.fresh_scenes", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_no_more_run_at_a_time_than_there_are_cores(said: dict[str, Any]):
    """Of more calls than cores, none ever sees more neighbours than there are cores; all get an answer."""
    assert len(said["beside"]) == said["limit"] + 2
    assert max(said["beside"]) <= said["limit"]


def test_a_process_that_outlives_a_fresh_interpreter_is_named_and_ended(said: dict[str, Any]):
    """A session of its own does not save it, and the text has its command line."""
    assert [text.partition(": ")[0] for text in said["left"]] == [f"process {said['pid']}"]
    assert "outlives its parent" in said["left"][0]
    assert not said["outlived"]


def test_shared_memory_that_stays_is_named(said: dict[str, Any]):
    """A segment that no process has open any more is told with its place."""
    assert said["memory"] == [f"shared memory /dev/shm/{said['memory-name']}"]


def test_one_that_hangs_is_ended_with_its_whole_tree(said: dict[str, Any]):
    """Children in sessions of their own end too, Python's tracker still frees the memory, and nobody is blamed."""
    assert said["hung"] == "did not answer within 3 s"
    assert said["after-hang"] == [False, False, []]


def test_a_shared_call_that_failed_is_not_made_again(said: dict[str, Any]):
    """The second check that asks is told at once how the first one's call ended."""
    (first, kind, took), (second, again, later) = said["shared"]
    assert first == second == "raised LookupError: no"
    assert kind == again == "LookupError"
    assert later < 0.1 < took
