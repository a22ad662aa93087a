"""The default of a member that only a platform can answer: it raises `NotSupported`, and says so as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from platform_abc.errors import NotSupported

F = TypeVar("F", bound=Callable[..., object])

MARK = "__declines__"


def declines(function: F) -> F:
    """Mark a default that always raises `NotSupported`, so that `members` can list it as such."""
    setattr(function, MARK, True)
    return function


def not_supported(cls: type, member: str, remedy: str) -> NotSupported:
    """Make the error for a member that the platform `cls` does not support; the caller raises it.

    Args:
        cls: the platform's class.
        member: the hook that was called.
        remedy: what would make it work, as a phrase after "to make it work, …".
    """
    return NotSupported(member, cls.__name__, remedy)
