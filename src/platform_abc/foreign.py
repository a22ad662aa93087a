"""Text about objects of others, which may lie, raise or never end a line: safe to log and to print."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Final, cast

LONGEST: Final = 1000
"""Characters of a foreign text that a message shows."""


def describe(error: BaseException) -> str:
    """Return `Type: message` of an error, on one printable line, also when its `__str__` itself raises."""
    message = _text(str, error, "(its text cannot be read)")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def shown(value: object) -> str:
    """Return the repr of a value, on one printable line, also when its `__repr__` itself raises."""
    return _text(repr, value, f"an unprintable {type(value).__name__}")


def traceback_text(error: BaseException) -> str:
    """Return the formatted traceback of an error with its causes."""
    try:
        return "".join(traceback.format_exception(error))
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # noqa: BLE001  (the loader of its module is asked for the source)
        return f"{describe(error)} (its traceback cannot be formatted: {type(raised).__name__})\n"


def printable(text: str) -> str:
    """Return a text with its control characters and half characters escaped, line ends kept."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def plain(value: object) -> object:
    """Return a string as an exact `str`, whatever a subclass of it overrides; others as they are."""
    kind = type(value)  # `isinstance` would believe what `__class__` claims
    return str.__str__(cast("str", value)) if issubclass(kind, str) else value


def _text(render: Callable[[object], str], value: object, failed: str) -> str:
    try:
        text = " ".join(str.__str__(render(value)).split())
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  (a hostile object; its type still tells something)
        return failed
    return printable(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")
