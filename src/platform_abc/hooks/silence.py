"""What a parent finds out about a child that cannot speak: it is stopped, native code keeps its interpreter, or ended it.

The child's watch has the standard library dump all stacks into a file, from a thread that needs no interpreter, unless
the watch itself says in time that it is still there. So only a process whose Python stands still writes there, and
what counts is whether a hook is on its stacks. Native code that crashes leaves its stack in the same file.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import CodeType
from typing import Final

POLL_SECONDS: Final = 0.5
"""Time between two looks of the parent."""

STOPPED_SECONDS: Final = 5.0
"""So long a process is stopped before it is given up."""

_DUMP: Final = "Timeout ("
_CRASH: Final = "Fatal Python error: "
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')


class StackFile:
    """The child's side: the file into which its stacks are dumped when it stands still.

    Args:
        path: the file; it is made.
        seconds: longest time that a hook may take.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._file = path.open("w")
        self._seconds = seconds
        self._hooks: Mapping[CodeType, str] = {}
        self._size = 0

    def take_crashes(self) -> None:
        """Have the stack of native code that crashes written here from now on, not to stderr: the parent tells it."""
        faulthandler.enable(self._file, all_threads=False)

    def renew(self, platform: str, hooks: Mapping[CodeType, str]) -> None:
        """Put off the next dump: this process does not stand still.

        Args:
            platform: class of the platform.
            hooks: the code of each hook, and its name.
        """
        faulthandler.cancel_dump_traceback_later()
        if hooks != self._hooks or os.fstat(self._file.fileno()).st_size != self._size:
            table = [[*_place(code), name] for code, name in hooks.items()]
            self._file.seek(0)
            self._file.truncate()
            json.dump({"platform": platform, "seconds": self._seconds, "hooks": table}, self._file)
            self._file.write("\n")
            self._file.flush()
            self._hooks, self._size = hooks, self._file.tell()
        # Two dumps in a time: a single one may also come from a machine that was asleep.
        faulthandler.dump_traceback_later(self._seconds / 2, repeat=True, file=self._file)


def _place(code: CodeType) -> tuple[str, str, int, int]:
    lines = [line for _, _, line in code.co_lines() if line]
    return code.co_filename, code.co_name, code.co_firstlineno, max(lines, default=code.co_firstlineno)


class Silence:
    """The parent's side: looks at one child from outside, some times a second while it does not answer.

    Args:
        process: its name, for messages.
        number: its number.
        stacks: the file of its `StackFile`; None if it has none.
    """

    def __init__(self, process: str, number: int, stacks: Path | None) -> None:
        self._process = process
        self._state = Path(f"/proc/{number}/stat")
        self._stacks = stacks
        self._stopped = 0

    def cause(self) -> str:
        """Return why the process will not answer; empty if it may still do so."""
        # Looks are counted, not seconds: a parent that was stopped together with its child knows of none.
        self._stopped = self._stopped + 1 if self._is_stopped() else 0
        if self._stopped * POLL_SECONDS >= STOPPED_SECONDS:
            return f"the {self._process} process is stopped, since {STOPPED_SECONDS:g} s or more"
        return self._stands_still()

    def _is_stopped(self) -> bool:
        with contextlib.suppress(OSError):
            return self._state.read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def last_words(self) -> str:
        """Return which hook a process that has crashed was in, and where; empty if it was in none, or did not crash."""
        text = self._read()
        head, crash, dump = text.partition(_CRASH)
        hook = _outermost_hook(head, dump) if crash else ""
        return f"in {hook}; it was here, the latest call first:\n{_frames(dump)}" if hook else ""

    def _stands_still(self) -> str:
        head, *dumps = self._read().split(_DUMP)
        hooks = {_outermost_hook(head, dump) for dump in dumps[-2:]}
        if len(dumps) < 2 or len(hooks) > 1 or not (hook := hooks.pop()):
            return ""
        return (
            f"the {self._process} process hangs: {hook} did not return within {json.loads(head)['seconds']:g} s and "
            f"keeps the interpreter; it was here, the latest call first:\n{_frames(dumps[-1])}"
        )

    def _read(self) -> str:
        if self._stacks is not None:
            with contextlib.suppress(OSError):
                return self._stacks.read_text(errors="replace")
        return ""


def _frames(dump: str) -> str:
    """Return the lines of a dump that say where the threads were, without what else the interpreter tells."""
    return "\n".join(
        line for line in dump.splitlines() if line.startswith(("  File ", "Thread ", "Current thread "))
    )


def _outermost_hook(head: str, dump: str) -> str:
    """Return the hook that a stack passes first; empty if it passes none, or the child had named none yet."""
    with contextlib.suppress(ValueError):
        known = json.loads(head.partition("\n")[0])
        found = [
            f"hook {hook} of {known['platform']}"
            for file, line, function in _FRAME.findall(dump)
            for where, name, first, last, hook in known["hooks"]
            if (where, name) == (file, function) and first <= int(line) <= last
        ]
        return found[-1] if found else ""
    return ""
