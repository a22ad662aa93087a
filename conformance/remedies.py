"""What to write instead of a line that raises, by what it raised."""

from __future__ import annotations

import re
from typing import Final

_NO_ATTRIBUTE: Final = re.compile(r"has no attribute '(\w+)'")
_NOTHING: Final = re.compile(r"'?NoneType'?")


def instead(raised: str) -> str:
    """What may take the place of the line, as the end of a sentence that begins with a change of it.

    Args:
        raised: the type of the exception and its text, as in `KeyError: 'level'`.
    """
    kind, _, text = raised.partition(": ")
    attribute = _NO_ATTRIBUTE.search(text)
    if _NOTHING.search(text):
        return ": test for None first"
    if kind == "AttributeError" and attribute:
        return f": test first, `getattr(…, {attribute[1]!r}, None)`, or correct the name"
    if kind == "KeyError":
        return f": read it with `.get({text or '…'})` and test for None, or compute it"
    if kind == "IndexError":
        return ": test the length first"
    if kind == "UnboundLocalError":
        return ": give the variable a value on each way to it"
    if kind == "NameError":
        return ": define or import the name"
    if kind in ("ModuleNotFoundError", "ImportError"):
        return ": import what may be absent in a `try … except ImportError`"
    return ""
