"""The validators of the configuration: each says in words what it expects.

A part names itself with the class variable `PATH`, so every message names the whole field path.
Nothing here imports torch; a torch value is recognised by the name of its type.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import attrs

from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs

T = TypeVar("T")
MAX_SHOWN = 200
"""Longest text of a value in a message, in characters."""


def shown(value: object) -> str:
    """Return `repr(value)`, shortened, also when `repr` itself raises."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a vendor's repr may raise anything
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def is_torch_dtype(value: object) -> TypeIs[torch.dtype]:
    """Say whether `value` is a `torch.dtype`, without importing torch."""
    kind = type(value)
    return kind.__module__ == "torch" and kind.__name__ == "dtype"


def field_path(owner: object, name: str) -> str:
    """Return the dotted path of a field, as a user would write it: `cache_config.block_size`."""
    prefix = getattr(type(owner), "PATH", "")
    return f"{prefix}.{name}" if prefix else name


@attrs.frozen
class Check(Generic[T]):
    """One validator: a test and the words for what it accepts.

    Args:
        test: says whether a value is acceptable; a test that raises counts as "no".
        expected: what is acceptable, as it follows "expected ".
    """

    test: Callable[[Any], bool]
    expected: str

    def accepts(self, value: object) -> bool:
        """Say whether `value` passes the test; a value that makes the test raise does not."""
        try:
            return bool(self.test(value))
        except Exception:  # noqa: BLE001 - comparing foreign values may raise anything
            return False

    def __call__(self, owner: object, attribute: attrs.Attribute[Any], value: T) -> None:
        """Refuse a value that fails the test.

        Raises:
            ConfigError: naming the field's path, the value and what was expected.
        """
        if not self.accepts(value):
            path = field_path(owner, attribute.name)
            raise ConfigError(f"{path} = {shown(value)}: expected {self.expected}")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _text_keys(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) for key in cast("dict[object, object]", value)
    )


def one_of(values: Sequence[object]) -> Check[Any]:
    """Accept exactly the listed values (by equality and type)."""
    listed = tuple(values)

    def test(value: object) -> bool:
        return any(type(value) is type(item) and value == item for item in listed)

    return Check(test, "one of " + ", ".join(repr(item) for item in listed))


def instance_of(kind: type, words: str = "") -> Check[Any]:
    """Accept instances of one class; of an enumeration, `words` are its members by default."""
    if issubclass(kind, enum.Enum):
        words = words or f"one of {', '.join(f'{kind.__name__}.{name}' for name in kind.__members__)}"
    return Check(lambda value: isinstance(value, kind), words or f"a {kind.__name__}")


def optional(check: Check[Any]) -> Check[Any]:
    """Accept `None` and whatever `check` accepts."""
    return Check(lambda value: value is None or check.accepts(value), f"None or {check.expected}")


def either(first: Check[Any], second: Check[Any]) -> Check[Any]:
    """Accept what one of two checks accepts."""
    return Check(
        lambda value: first.accepts(value) or second.accepts(value), f"{first.expected} or {second.expected}"
    )


def list_of(check: Check[Any], words: str) -> Check[Any]:
    """Accept a list whose items all pass `check`; also sees what was appended later."""

    def test(value: object) -> bool:
        return isinstance(value, list) and all(check.accepts(item) for item in cast("list[object]", value))

    return Check(test, f"a list of {words}")


def at_least(limit: int) -> Check[int]:
    """Accept whole numbers from `limit` on."""
    return Check(lambda value: _whole(value) and value >= limit, f"a whole number of at least {limit}")


def between(low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> Check[float]:
    """Accept numbers in an interval whose ends belong to it unless said otherwise."""

    def test(value: Any) -> bool:
        above = value > low if open_low else value >= low
        below = value < high if open_high else value <= high
        return _number(value) and above and below

    left = "more than" if open_low else "at least"
    right = "less than" if open_high else "at most"
    return Check(test, f"a number of {left} {low} and {right} {high}")


BOOL: Check[bool] = instance_of(bool, "True or False")
TEXT: Check[str] = instance_of(str, "a string")
NAME: Check[str] = Check(lambda value: isinstance(value, str) and value.strip() != "", "a non-empty string")
WHOLE: Check[int] = Check(_whole, "a whole number")
POSITIVE: Check[int] = at_least(1)
NOT_NEGATIVE: Check[int] = at_least(0)
PORT: Check[int] = Check(lambda value: _whole(value) and 1 <= value <= 65535, "a port, 1 to 65535")
TEXTS: Check[list[str]] = list_of(TEXT, "strings")
TEXT_KEYS: Check[dict[str, Any]] = Check(_text_keys, "a dict with strings as keys")
