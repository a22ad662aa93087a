"""What a picker names, imported and checked for being what the engine needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from platform_abc.qualname import resolve_obj_by_qualname

T = TypeVar("T")


def resolve_picked(picker: str, name: object, base: Callable[..., T], platform: object) -> Callable[..., T]:
    """Return the class that a picker of a platform has named.

    Args:
        picker: the member that was asked.
        name: its answer.
        base: the class that it must derive from.
        platform: whose picker it is.

    Raises:
        QualnameError: the name cannot be imported; a note says which picker gave it.
        ValueError: the answer is no name, or what it names does not derive from `base`.
    """
    who = f"{picker} of {type(platform).__name__}"
    if not isinstance(name, str) or not name:
        raise ValueError(f"{who} returned {name!r}, expected the dotted name of a class")
    try:
        chosen = resolve_obj_by_qualname(name)
    except ImportError as error:
        error.add_note(f"named by {who}")
        raise
    # A class, but an abstract one is no `type[T]` to checkers.
    kind = cast("type[T]", base)
    if not (isinstance(chosen, type) and issubclass(chosen, kind)):
        raise ValueError(f"{name}, from {who}, does not derive from {kind.__module__}.{kind.__qualname__}")
    return chosen
