"""The mark of an attribute that every platform must set itself, and the check that it did.

A checker refuses a platform that forgets one because a Protocol among its bases declares it without a
value. This module is the run-time side of the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class Required:
    """Stands where a platform must put a value; counts as abstract until it does.

    Args:
        example: a line that sets the attribute, for the error text.
    """

    # ABCMeta reads this mark, so that an instance of a class without the value cannot be made either.
    __isabstractmethod__: Final = True

    def __init__(self, example: str) -> None:
        self.example = example
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Required:
        """Answer the mark itself on the class, where ABCMeta looks, and refuse on an instance.

        Raises:
            AttributeError: on an instance: nothing was set.
        """
        if instance is None:
            return self
        raise AttributeError(
            f"{type(instance).__name__}.{self.name} is not set; write `{self.example}` in the class"
        )


def find(cls: type, name: str) -> object:
    """Return what the class has under `name`, unbound, without running any descriptor; None if nothing."""
    for base in cls.__mro__:
        if name in base.__dict__:
            found: object = base.__dict__[name]
            return found
    return None


def missing(cls: type, names: Iterable[str]) -> list[str]:
    """Return those of `names` that the class leaves abstract, in the order given."""
    return [name for name in names if getattr(find(cls, name), "__isabstractmethod__", False)]


def explain(cls: type, names: Iterable[str]) -> str:
    """Return the error text for a class that leaves `names` open: what is missing and what to write."""
    names = list(names)
    lines: list[str] = []
    for name in names:
        mark = find(cls, name)
        line = mark.example if isinstance(mark, Required) else f"@classmethod def {name}(cls, …)"
        late = _defined_too_late(cls, name)
        if late:
            line = f"{name} is in {late}, but that stands after the platform among the bases; put it first"
        lines.append(f"  {line}")
    asked = "\n".join(lines)
    return (
        f"{cls.__module__}.{cls.__qualname__} lacks what every platform must define: {', '.join(names)}. "
        f"Define in the class:\n{asked}\n"
        f"or, if it is only a base of other platforms, write `class {cls.__name__}(…, abstract=True)`"
    )


def _defined_too_late(cls: type, name: str) -> str:
    """Return which base defines the name behind the one that leaves it open; empty if none does."""
    opener, *later = (base for base in cls.__mro__ if name in vars(base))
    for base in later:
        if opener is not cls and not getattr(vars(base)[name], "__isabstractmethod__", False):
            return base.__name__
    return ""
