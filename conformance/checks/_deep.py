"""Print a value down to what the objects in it hold, so that two moments or two copies can be compared."""

from __future__ import annotations

import contextvars
import inspect
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from conformance.context import is_a

_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]+")
_DEEPEST: Final = 8
_NOT_HELD: Final = frozenset({"__wrapped__", "__dict__", "__weakref__"})


def deep_text(value: object, above: tuple[int, ...] = ()) -> str:
    """A value as text that shows the attributes of objects which do not print themselves.

    A function or class is shown by its name and, for a function, what was hung on it.

    Args:
        value: anything.
        above: ids of the containers that it lies in.
    """
    if id(value) in above or len(above) >= _DEEPEST:
        return "…"
    above = (*above, id(value))
    try:
        return _text(value, above)
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def opaque(value: object) -> bool:
    """Say whether a value hides what it holds: its repr says nothing, or it holds a value per context."""
    if is_a(value, contextvars.ContextVar, threading.local):
        return True
    return type(value).__repr__ is object.__repr__ and bool(_held(value))


def _text(value: object, above: tuple[int, ...]) -> str:
    if is_a(value, contextvars.ContextVar):
        return f"ContextVar({deep_text(cast('contextvars.ContextVar[object]', value).get(None), above)})"
    if is_a(value, type):
        return getattr(value, "__qualname__", "class")
    if is_a(value, classmethod, staticmethod) or inspect.isroutine(value):
        function: Any = getattr(value, "__func__", value)
        name: str = getattr(function, "__qualname__", type(function).__name__)
        return name + _attributes(getattr(function, "__dict__", {}), above)
    if is_a(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return "{" + ", ".join(f"{deep_text(k, above)}: {deep_text(v, above)}" for k, v in pairs) + "}"
    if is_a(value, list, tuple):
        return "[" + ", ".join(deep_text(one, above) for one in cast("Iterable[object]", value)) + "]"
    if is_a(value, set, frozenset):
        return "{" + ", ".join(sorted(deep_text(one, above) for one in cast("Iterable[object]", value))) + "}"
    text = _ADDRESS.sub("", repr(value))
    return text + _attributes(_held(value), above) if opaque(value) else text


def _held(value: object) -> dict[str, object]:
    found: Any = getattr(value, "__dict__", None)
    return {str(name): one for name, one in found.items()} if is_a(found, dict) else {}


def _attributes(held: Mapping[str, object], above: tuple[int, ...]) -> str:
    parts = [f"{name}={deep_text(one, above)}" for name, one in held.items() if name not in _NOT_HELD]
    return f"({', '.join(parts)})" if parts else ""
