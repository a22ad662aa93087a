"""Runs a function in several processes at once, one for each rank, and ends them in time."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.context import describe
from conformance.isolation import reaper
from conformance.isolation.forked import CAN_FORK, leave
from conformance.model import Skip

Say = Callable[[str], None]
"""Called by a rank with what it does next, in words."""

Work = Callable[[int, Path, Say], Any]
"""`(rank, a folder that all ranks share, say) -> answer`; the answer must pickle."""

_TICK: Final = 0.05


@attrs.frozen
class Ended:
    """How one rank ended.

    Args:
        rank: which.
        answer: what the function returned; None if it did not.
        raised: the exception in words; empty if there was none.
        place: the innermost line of the platform's own that it passed.
        died: how the process ended without a word; empty if it spoke.
        hung: it was still at work when the time was over.
        doing: what it had said last.
    """

    rank: int
    answer: Any = None
    raised: str = ""
    place: str = ""
    died: str = ""
    hung: bool = False
    doing: str = ""


def on_ranks(
    count: int, work: Work, limit: float, blame: Callable[[BaseException], str] = lambda error: ""
) -> list[Ended]:
    """Run a function on so many ranks, each a process forked from this one; none is left when it returns.

    Args:
        count: ranks.
        work: the function.
        limit: seconds for all of them together.
        blame: finds the line of the platform's own that an exception passed.

    Raises:
        Skip: this system's libraries do not survive a fork.
    """
    if not CAN_FORK:
        raise Skip("this system cannot fork a process that has imported torch", "run the kit on Linux")
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    readers: dict[int, int] = {}
    pids: dict[int, int] = {}
    gate, opener = os.pipe()  # no rank leaves before all have answered: the others may need it
    try:
        for rank in range(count):
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                os.close(opener)
                _be_rank(rank, work, folder, writer, gate, blame)
            os.close(writer)
            readers[rank], pids[rank] = reader, pid
        return _collect(readers, pids, limit)
    finally:
        os.close(opener)
        for pid in pids.values():
            _end(pid)
        for one in (*readers.values(), gate):
            os.close(one)
        shutil.rmtree(folder, ignore_errors=True)


def _end(pid: int) -> None:
    """End a rank that still runs, and what it has started."""
    if reaper.collect(pid, within=0.2) is not None:
        return
    for one in (*reaper.descendants(pid), pid):
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)
    reaper.collect(pid, within=5.0)


def _be_rank(
    rank: int, work: Work, folder: Path, writer: int, gate: int, blame: Callable[[BaseException], str]
) -> None:
    def tell(what: str, value: object) -> None:
        data = pickle.dumps((what, value))
        rest = len(data).to_bytes(4, "big") + data
        while rest:
            rest = rest[os.write(writer, rest) :]

    try:
        try:
            tell("answer", work(rank, folder, lambda words: tell("doing", words)))
        except BaseException as error:
            tell("raised", (describe(error), blame(error)))
        os.read(gate, 1)
    finally:
        leave(0)


def _collect(readers: dict[int, int], pids: dict[int, int], limit: float) -> list[Ended]:
    """Read what the ranks say until all have ended, one has failed for a moment, or the time is over."""
    until = time.monotonic() + limit
    told: dict[int, bytes] = dict.fromkeys(readers, b"")
    open_ones = set(readers)
    failed_at: float | None = None
    while open_ones and time.monotonic() < until:
        # What one rank does not do the others wait for in vain.
        if failed_at is not None and time.monotonic() > failed_at + 2.0:
            break
        ready, _, _ = select.select([readers[one] for one in open_ones], [], [], _TICK)
        for rank in list(open_ones):
            if readers[rank] not in ready:
                continue
            data = os.read(readers[rank], 1 << 16)
            told[rank] += data
            said = dict(_messages(told[rank]))
            if not data or "answer" in said or "raised" in said:
                open_ones.discard(rank)
                if "answer" not in said and failed_at is None:
                    failed_at = time.monotonic()
    ended: list[Ended] = []
    for rank in sorted(readers):
        last = dict(_messages(told[rank]))
        doing = str(last.get("doing", "the start"))
        if "answer" in last:
            ended.append(Ended(rank, last["answer"], doing=doing))
        elif "raised" in last:
            words, place = last["raised"]
            ended.append(Ended(rank, raised=words, place=place, doing=doing))
        elif rank in open_ones:
            ended.append(Ended(rank, hung=True, doing=doing))
        else:
            ended.append(Ended(rank, died=_end_of(pids[rank]), doing=doing))
    return ended


def _messages(data: bytes) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    while len(data) >= 4:
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            break
        found.append(pickle.loads(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


def _end_of(pid: int) -> str:
    status = reaper.collect(pid, within=1.0)
    code = os.waitstatus_to_exitcode(status) if status is not None else 0
    return f"died on signal {-code}" if code < 0 else f"exited with status {code} without an answer"
