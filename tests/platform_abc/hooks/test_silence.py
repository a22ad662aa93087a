"""Facts about children that cannot speak: what their parent finds out all the same, and what is no fault."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from platform_abc.hooks.silence import POLL_SECONDS, STOPPED_SECONDS, Silence, StackFile


@pytest.fixture(autouse=True)
def _no_dump_later() -> Iterator[None]:
    """This process goes on after the test, and is not to be dumped then."""
    yield
    faulthandler.cancel_dump_traceback_later()


DUMP = """Timeout (0:00:01)!
Thread 0x00007f0000000000 (most recent call first):
  File "{file}", line {line} in {name}
  File "other.py", line 3 in run
"""


def slow_hook() -> None:
    """Stand for a hook."""
    time.sleep(0)


HOOKS = {slow_hook.__code__: "log_warnings"}
LINE = slow_hook.__code__.co_firstlineno + 2


def dump(path: Path, file: str = __file__, line: int = LINE, name: str = "slow_hook") -> None:
    with path.open("a") as stacks:
        stacks.write(DUMP.format(file=file, line=line, name=name))


def test_a_hook_on_two_dumps_in_a_row_keeps_the_interpreter(tmp_path: Path) -> None:
    """One may come from a machine that was asleep, and the child's word that it is there takes it back."""
    path = tmp_path / "worker.stacks"
    mine = StackFile(path, 120)
    mine.renew("CpuPlatform", HOOKS)
    silence = Silence("worker", os.getpid(), path)
    assert silence.cause() == ""
    dump(path)
    assert silence.cause() == ""
    dump(path)
    text = silence.cause()
    assert text.startswith(
        "the worker process hangs: hook log_warnings of CpuPlatform did not return within 120 s and keeps the "
        "interpreter"
    )
    assert f"line {LINE} in slow_hook" in text
    mine.renew("CpuPlatform", HOOKS)
    assert silence.cause() == ""


@pytest.mark.parametrize("place", [{"file": "torch.py"}, {"line": LINE + 90}, {"name": "other"}])
def test_what_is_no_hook_may_keep_the_interpreter(tmp_path: Path, place: dict[str, str]) -> None:
    """An import of a large library does so too; it is found by file, function and line."""
    path = tmp_path / "worker.stacks"
    StackFile(path, 120).renew("CpuPlatform", HOOKS)
    for _ in range(3):
        dump(path, **place)  # type: ignore[arg-type]
    assert Silence("worker", os.getpid(), path).cause() == ""


def test_a_process_that_stands_still_says_so_itself(tmp_path: Path) -> None:
    """Without its interpreter: the stack is that of the hook that keeps it."""
    path = tmp_path / "worker.stacks"
    script = f"""
import re, pathlib
from platform_abc.hooks.silence import StackFile
def hook():
    re.match("(a+)+$", "a" * 60 + "b")
StackFile(pathlib.Path({str(path)!r}), 0.6).renew("Chip", {{hook.__code__: "log_warnings"}})
hook()
"""
    child = subprocess.Popen([sys.executable, "-c", script])
    silence = Silence("worker", child.pid, path)
    until = time.monotonic() + 20
    while not (text := silence.cause()) and time.monotonic() < until:
        time.sleep(0.1)
    child.kill()
    child.wait()
    assert "hook log_warnings of Chip did not return within 0.6 s" in text


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process is read from /proc")
def test_a_stopped_process_is_given_up_once_it_was_seen_often_enough() -> None:
    """One that goes on in between is counted anew."""
    child = subprocess.Popen(["sleep", "60"])
    silence = Silence("worker", child.pid, None)
    looks = int(STOPPED_SECONDS / POLL_SECONDS)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert [silence.cause() for _ in range(looks - 1)] == [""] * (looks - 1)
    os.kill(child.pid, signal.SIGCONT)
    os.waitid(os.P_PID, child.pid, os.WCONTINUED)
    assert silence.cause() == ""
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert [bool(silence.cause()) for _ in range(looks)] == [False] * (looks - 1) + [True]
    child.kill()
    child.wait()


def test_a_process_that_is_gone_is_no_matter_of_silence(tmp_path: Path) -> None:
    """Its end is told elsewhere."""
    assert Silence("worker", 2**30, tmp_path / "none").cause() == ""


def test_a_process_that_crashes_says_in_which_hook(tmp_path: Path) -> None:
    """Its stack is in the file, where the interpreter adds more than frames; before any hook is known, none is named."""
    path = tmp_path / "worker.stacks"
    script = f"""
import faulthandler, pathlib, sys
from platform_abc.hooks.silence import StackFile
def hook():
    faulthandler._sigsegv()
mine = StackFile(pathlib.Path({str(path)!r}), 60)
mine.take_crashes()
if sys.argv[1:]:
    mine.renew("Chip", {{hook.__code__: "import_kernels"}})
hook()
"""
    silence = Silence("worker", os.getpid(), path)
    for known in ([], ["known"]):
        child = subprocess.run([sys.executable, "-c", script, *known], check=False)
        assert child.returncode == -signal.SIGSEGV
        text = silence.last_words()
        assert text.startswith("in hook import_kernels of Chip; it was here, the latest call first:") == bool(
            known
        )
    assert text.splitlines()[-1].endswith(" in <module>")
    assert silence.cause() == ""
