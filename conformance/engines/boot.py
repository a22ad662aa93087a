"""Boots an engine with the platform under test, and ends it in time, whatever it does.

`run` is called in a fresh interpreter, which starts the front end as a process of its own, watches all that
comes of it, and tells what happened as JSON values.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.isolation import reaper

PROMPTS: Final = [[1, 2, 3], [5, 6, 7, 8, 9, 10], [4], list(range(1, 41))]
"""What is generated for: prompts of several lengths, together in one batch."""

TOKENS: Final = 6
"""So many tokens for each prompt."""

Layout = str
"""`one-process` or `worker-processes`, as in `platform_abc.timeline`."""

_TICK: Final = 0.2
_BUSY: Final = 6
"""So many times the patience for a process that is still computing."""
_WINDOW: Final = 5.0
_LEAST: Final = 0.05
"""A tree of processes is idle that computes for less than this share of one processor, over the window in seconds."""
_LINGER: Final = 10.0
"""Seconds that other processes may take to end after it."""
_TAIL: Final = 6000
_MEMORY: Final = "/dev/shm/"  # noqa: S108  where Linux shows shared memory
_FRONT: Final = (
    "import sys; sys.path[:0] = [sys.argv[2]]; import conformance.engines.front_boot as front;"
    " del sys.path[0]; front.main()"
)


@attrs.frozen
class Plan:
    """What is booted, and how.

    Args:
        engine: the adapter's name.
        drive: `module:function` that boots the engine, generates and closes it.
        layout: how the engine is spread over processes.
        module: of the platform's class.
        qualname: of the class in its module.
        seconds: after which the run is ended if nothing computes any more; twice as many are the end anyway.
        environment: variables beside those of every child; None for one that has to be absent.
        general: name and value of the general plugins that the platform's distribution publishes.
        patience: seconds for which a front end may go on without one of its processes, and that it may take
            to end once its engine is closed.
    """

    engine: str
    drive: str
    layout: Layout
    module: str
    qualname: str
    seconds: float
    environment: Mapping[str, str | None]
    general: Sequence[Sequence[str]] = ()
    patience: float = 20.0


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Boot, watch, end, and tell; call it in a fresh interpreter.

    Args:
        settings: the fields of a `Plan`.

    Returns:
        The fields of a `Boot`.
    """
    reaper.adopt_orphans()
    folder = Path(tempfile.mkdtemp(prefix="boot-"))
    try:
        return attrs.asdict(_Watch(Plan(**settings), folder).run())
    finally:
        reaper.sweep(keep=set())
        shutil.rmtree(folder, ignore_errors=True)


@attrs.frozen
class Boot:
    """What came of a run.

    Args:
        ended: `answered`; `hung` when the time was over; `stuck` when one of the engine's processes was
            gone and the front end waited for it; `lingered` when the front end did not end after its
            engine was closed; `died` when it ended without a word.
        status: the front end's exit status, negative for a signal; None if it was ended.
        seconds: that it took.
        limit: the seconds that it had.
        result: what the front end wrote: `answer` or `error`, and `memory`, what was shared then; empty if nothing.
        events: what each process noted, in order of time.
        stacks: where the threads of a hanging process stood, innermost frame first, by process.
        left: processes that outlived the engine, as their command lines.
        memory: names of shared memory that were left when it was closed.
        output: the last lines that were printed.
    """

    ended: str
    status: int | None
    seconds: float
    limit: float
    result: dict[str, Any]
    events: list[dict[str, Any]]
    stacks: dict[str, str]
    left: list[str]
    memory: list[str]
    output: str


@attrs.define
class _Watch:
    """One run in progress."""

    plan: Plan
    folder: Path
    mapped: set[str] = attrs.field(factory=set[str])

    def run(self) -> Boot:
        """Start the front end and stay until nothing of it is left."""
        before = shared_memory()
        started = time.monotonic()
        with (self.folder / "output").open("wb") as output:
            front = subprocess.Popen(
                self._command(),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        ended = self._wait(front, started + self.plan.seconds)
        seconds = time.monotonic() - started
        stacks = self._stacks() if ended in ("hung", "stuck", "lingered") else {}
        status = front.poll()
        left = self._left() if status is not None else []
        reaper.kill_tree(front.pid)
        reaper.sweep(keep=set())
        front.wait()
        result, events = self._result(), self._events()
        # What was mapped for moments only, no look at the processes may have met.
        self.mapped |= {event["memory"] for event in events if event["what"] == "maps"}
        memory = sorted(self.mapped & {*result.get("memory", ()), *shared_memory()} - before)
        for name in memory:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        return Boot(
            ended=ended,
            status=status,
            seconds=round(seconds, 1),
            limit=self.plan.seconds,
            result=result,
            events=events,
            stacks=stacks,
            left=left,
            memory=memory,
            output=self._output(),
        )

    def _command(self) -> list[str]:
        import conformance

        kit = str(Path(next(iter(conformance.__path__))).parent)
        settings = json.dumps({"drive": self.plan.drive, "layout": self.plan.layout})
        return [sys.executable, "-P", "-c", _FRONT, settings, kit]

    def _environment(self) -> dict[str, str]:
        from conformance.engines import hooks_boot, plugin_boot

        site = self.folder / "site"
        site.mkdir()
        plugin_boot.install(site)
        spec = {
            "engine": self.plan.engine,
            "module": self.plan.module,
            "qualname": self.plan.qualname,
            "general": self.plan.general,
        }
        path = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        env: dict[str, str | None] = {
            **os.environ,
            **self.plan.environment,
            hooks_boot.FOLDER: str(self.folder),
            plugin_boot.SPEC: json.dumps(spec),
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONFAULTHANDLER": "1",  # a crash prints where
        }
        return {name: value for name, value in env.items() if value is not None}

    def _wait(self, front: subprocess.Popen[bytes], until: float) -> str:
        """Wait for the front end; how the run ended."""
        ticks = 0
        alone: float | None = None
        written: float | None = None
        pulse = _Pulse()
        while True:
            done = (self.folder / "result.json").exists()
            if front.poll() is not None:
                return "answered" if (self.folder / "result.json").exists() else "died"
            tree = (front.pid, *reaper.descendants(front.pid))
            now = time.monotonic()
            idle = pulse.idle(tree, now)
            if done:
                written = written or now
                # A busy machine may take its time over the end of an interpreter, which then works.
                if now > written + self.plan.patience * (1 if idle else _BUSY):
                    return "lingered"
            elif now > until and (idle or now > until + self.plan.seconds):
                return "hung"
            elif self._lost():
                alone = alone or now
                if now > alone + self.plan.patience:
                    return "stuck"
            ticks += 1
            for pid in tree if ticks % 2 else ():
                self.mapped |= _mapped(pid)
            time.sleep(_TICK)

    def _lost(self) -> bool:
        """Say whether a process that has spoken is gone, although the engine has not been closed."""
        from conformance.engines.front_boot import CLOSING
        from conformance.engines.hooks_boot import ENGINE_CORE, WORKER

        lost = False
        for file in self.folder.glob("events-*"):
            text = file.read_text(encoding="utf-8", errors="replace")
            if f'"{CLOSING}"' in text:
                return False
            is_part = any(f'"process": "{name}"' in text for name in (ENGINE_CORE, WORKER))
            lost |= is_part and not _runs(int(file.name.rpartition("-")[2]))
        return lost

    def _stacks(self) -> dict[str, str]:
        """Let every process write down where it stands."""
        from conformance.engines.hooks_boot import DUMP

        names = {event["pid"]: event["process"] for event in self._events()}
        alive = [pid for pid in names if (self.folder / f"stacks-{pid}").exists() and _runs(pid)]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, DUMP if DUMP is not None else signal.SIGABRT)
        time.sleep(0.7)
        return {
            names[pid]: (self.folder / f"stacks-{pid}").read_text(errors="replace")[-_TAIL:] for pid in alive
        }

    def _left(self) -> list[str]:
        """The processes that are still there some seconds after the front end."""
        until = time.monotonic() + _LINGER
        while True:
            those = running_children()
            if not those or time.monotonic() > until:
                return [f"{pid} `{command}`" for pid, command in sorted(those.items())]
            time.sleep(_TICK)

    def _result(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found

    def _events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        for file in self.folder.glob("events-*"):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # a process that was ended in the middle of a line
                    events.append(json.loads(line))
        return sorted(events, key=lambda event: float(event["t"]))

    def _output(self) -> str:
        with (self.folder / "output").open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _TAIL))
            return stream.read().decode("utf-8", "replace").strip()


@attrs.define
class _Pulse:
    """Whether a tree of processes computes, from the processor time that it takes."""

    since: float = 0.0
    spent: float = 0.0
    is_idle: bool = False

    def idle(self, pids: Sequence[int], now: float) -> bool:
        """Say whether the processes did next to nothing in the last whole window."""
        if now >= self.since + _WINDOW:
            spent = sum(_seconds_of(pid) for pid in pids)
            # One that has ended takes its share along, which is activity too.
            self.is_idle = bool(self.since) and abs(spent - self.spent) < _LEAST * (now - self.since)
            self.since, self.spent = now, spent
        return self.is_idle


def _seconds_of(pid: int) -> float:
    """The processor time of a process, in seconds; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return 0.0
    return sum(map(int, fields.split()[11:13])) / float(os.sysconf("SC_CLK_TCK"))


def running_children(*, collect: bool = True) -> dict[int, str]:
    """The children of this process, and theirs, that run: command lines by id.

    Args:
        collect: take the status of those that have ended, for which nobody else then can ask.
    """
    found: dict[int, str] = {}
    for pid in reaper.descendants(os.getpid()):
        if not collect or reaper.collect(pid, within=0) is None or _runs(pid):
            with contextlib.suppress(OSError):
                command = (
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                if command and _runs(pid):
                    found[pid] = command.strip()[:200]
    return found


def _runs(pid: int) -> bool:
    """Say whether a process runs and has not just ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)  # a system without /proc
        except OSError:
            return False
        return True
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def shared_memory() -> set[str]:
    """The shared memory of the machine, as paths; none where the system does not show it."""
    return {str(file) for file in Path(_MEMORY).glob("*")} if Path(_MEMORY).is_dir() else set()


def _mapped(pid: int) -> set[str]:
    """The shared memory that a process has mapped, as paths."""
    try:
        with Path(f"/proc/{pid}/maps").open("rb") as stream:
            lines = [line for line in stream if b" /dev/shm/" in line]
    except OSError:
        return set()
    return {line.split(maxsplit=5)[5].decode(errors="replace").strip() for line in lines}
