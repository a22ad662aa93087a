"""Reads frames out of what a crash printed: where the platform was, and which of its members had been called."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Final

import attrs

import conformance
from conformance.model import Check

_FRAME: Final = re.compile(r'^ *File "([^"]+)", line (\d+),? in (\S+)', re.MULTILINE)
_CURRENT: Final = "Current thread"
_FIRST: Final = "(most recent call first)"
_OURS: Final = str(next(iter(conformance.__path__)))
_PYTHONS: Final = (sysconfig.get_path("stdlib"), "<frozen")


@attrs.frozen
class Frame:
    """One line of a stack.

    Args:
        file: as Python names it.
        line: its number.
        function: that it is in.
    """

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


def read(text: str) -> list[Frame]:
    """The frames outside the kit of the thread that crashed or raised, innermost first.

    Args:
        text: what `faulthandler` or `traceback` printed, with anything around it.
    """
    innermost_first = _FIRST in text
    if _CURRENT in text:
        text = text.rpartition(_CURRENT)[2].partition("\n\n")[0]
    found = [Frame(file, int(line), function) for file, line, function in _FRAME.findall(text)]
    if not innermost_first:
        found.reverse()
    return [one for one in found if not one.file.startswith(_OURS)]


def place(frames: list[Frame], home: str = "") -> str:
    """Where to look: the innermost frame of the platform, else of anybody but Python itself; empty if none.

    Args:
        home: `file:line` of the platform's class.
    """
    folder = str(Path(home.rpartition(":")[0]).parent) if ":" in home else ""
    theirs = [one for one in frames if folder and one.file.startswith(f"{folder}/")]
    others = [one for one in frames if not one.file.startswith(_PYTHONS)]
    return next((one.place for one in (*theirs, *others, *frames)), "")


def member(frames: list[Frame], check: Check) -> str:
    """The member that the kit or the engine had called when it happened; the check's id where that is not known."""
    from platform_abc.members import MEMBERS

    called = [one.function for one in frames if one.function in MEMBERS or one.function in check.asks]
    if called:
        return called[-1]
    return check.asks[0] if len(check.asks) == 1 else check.id
