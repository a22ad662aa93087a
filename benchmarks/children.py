"""Fresh interpreters: run a program in one and get its JSON answer, its time and its memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

SAMPLE_EVERY_S: Final = 0.1
"""How often the memory of a process tree is read. Reading it costs the measured run some time,
so a run that is timed is not sampled, and a run that is sampled is not timed."""

QUIET: Final = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_PLUGINS": "",
    "PLATFORM_ABC_PLUGINS": "",
}


class ChildFailed(RuntimeError):
    """A measured program did not end as it should; the text has the end of what it printed."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a measured program: ours, offline, without plugins of this machine."""
    return {**os.environ, **QUIET, **(extra or {})}


def answer(program: str, *, extra: Mapping[str, str] | None = None) -> Any:
    """Run Python source in a fresh interpreter and return what it passed to `answer(value)`.

    Raises:
        ChildFailed: it exited with another status than 0.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "answer.json")
        source = (
            "def answer(value, _file=" + repr(str(told)) + "):\n"
            "    import json\n"
            "    with open(_file, 'w') as f:\n"
            "        json.dump(value, f)\n" + program
        )
        run([sys.executable, "-P", "-c", source], extra=extra)
        return json.loads(told.read_text())


def run(command: Sequence[str], *, extra: Mapping[str, str] | None = None, status: int = 0) -> float:
    """Run a command in an empty folder and return its wall time in seconds.

    Raises:
        ChildFailed: it exited with another status than `status`.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        started = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(extra),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        took = time.perf_counter() - started
        if done.returncode != status:
            output.seek(0)
            raise ChildFailed(
                f"{' '.join(command)[:200]} exited with {done.returncode}:\n{output.read()[-3000:]}"
            )
    return took


@attrs.define
class _TreeMemory:
    """Watches the memory of this process's descendants: the most that all held together, in MB."""

    peak_mb: float = 0.0
    _stop: threading.Event = attrs.field(factory=threading.Event)

    def watch(self) -> None:
        while not self._stop.wait(SAMPLE_EVERY_S):
            self.peak_mb = max(self.peak_mb, sum(map(_pss_mb, _descendants(os.getpid()))))

    def stop(self) -> None:
        self._stop.set()


def peak_memory_mb(command: Sequence[str], *, extra: Mapping[str, str] | None = None) -> tuple[float, str]:
    """Run a command and return the peak memory of its process tree in MB, and how it was measured."""
    if not Path("/proc/self/smaps_rollup").exists():
        run(command, extra=extra)
        unit = 1024 if sys.platform != "darwin" else 1024 * 1024
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit, "largest process"
    tree = _TreeMemory()
    thread = threading.Thread(target=tree.watch, daemon=True)
    thread.start()
    try:
        run(command, extra=extra)
    finally:
        tree.stop()
        thread.join()
    return tree.peak_mb, "sum over the process tree, shared pages counted once"


def _descendants(root: int) -> list[int]:
    """The ids of all processes below `root`."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended while we looked
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _pss_mb(pid: int) -> float:
    """The proportional set size of one process in MB; 0 for one that has ended."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
