"""Facts about running ranks beside each other."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from conformance.isolation.forked import CAN_FORK
from conformance.numeric.ranks import Say, on_ranks

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="this system cannot fork")


def test_every_rank_answers_and_shares_a_folder() -> None:
    """Each rank gets its number, and all of them the same folder, which is gone after."""

    def work(rank: int, folder: Path, say: Say) -> Any:
        return (rank, str(folder))

    ends = on_ranks(3, work, 10.0)
    assert [end.answer[0] for end in ends] == [0, 1, 2]
    assert len({end.answer[1] for end in ends}) == 1
    assert not Path(ends[0].answer[1]).exists()


def test_a_rank_that_hangs_is_ended_with_what_it_was_doing() -> None:
    """The time is over for the rank that waits, the other one's answer is there, and no process is left."""

    def work(rank: int, folder: Path, say: Say) -> Any:
        say("waiting")
        if rank == 1:
            time.sleep(60)
        return os.getpid()

    started = time.monotonic()
    ends = on_ranks(2, work, 1.0)
    assert time.monotonic() - started < 10
    assert (ends[1].hung, ends[1].doing) == (True, "waiting")
    with pytest.raises(ProcessLookupError):
        os.kill(ends[0].answer, 0)


def test_what_a_rank_raises_or_dies_of_is_told() -> None:
    """An exception comes in words, an exit with its status."""

    def work(rank: int, folder: Path, say: Say) -> Any:
        if rank == 0:
            raise ValueError("no such peer")
        os._exit(3)

    ends = on_ranks(2, work, 10.0)
    assert ends[0].raised == "ValueError: no such peer"
    assert ends[1].died == "exited with status 3 without an answer"


def test_a_rank_stays_until_all_have_answered() -> None:
    """The first to answer is still there while another one works."""

    def work(rank: int, folder: Path, say: Say) -> Any:
        mark = folder / "pid"
        if rank == 0:
            mark.write_text(str(os.getpid()))
            return True
        while not mark.exists() or not mark.read_text():
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(int(mark.read_text()), 0)
        return True

    assert all(end.answer for end in on_ranks(2, work, 10.0))
