"""A `VllmConfig` as plain values: what a hook changed is the difference between two of them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from conformance.context import is_a

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_DEPTH: Final = 8
"""How deep a snapshot follows objects; configs are four deep, a cycle would not end."""

_VOLATILE: Final = frozenset({"instance_id"})
"""Fields that are random for each config and say nothing about it."""

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""What a snapshot holds: comparable, and ready for a report."""


def snapshot(config: Any) -> dict[str, Plain]:
    """Flatten a config to dotted field name -> plain value.

    Attributes that a hook adds count as fields. Cached properties do not: reading fills them.
    """
    flat: dict[str, Plain] = {}
    _flatten(config, "", flat, 0)
    return flat


def _flatten(value: Any, path: str, flat: dict[str, Plain], depth: int) -> None:
    parts = _parts(value) if depth < _DEPTH else None
    if parts is None:
        flat[path] = plain(value)
        return
    for name, part in parts.items():
        _flatten(part, f"{path}.{name}" if path else name, flat, depth + 1)


def _parts(value: Any) -> Mapping[str, Any] | None:
    """The named parts of an object that is a config of its own; None for a single value."""
    to_dict = getattr(value, "to_dict", None)
    if hasattr(value, "model_type") and callable(to_dict):
        return _by_name(to_dict())  # a model's own description
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    return {
        name: part
        for name, part in vars(value).items()
        if name not in _VOLATILE and not name.startswith("__") and not _is_cached(value, name)
    }


def _by_name(values: Any) -> Mapping[str, Any] | None:
    return {str(key): part for key, part in values.items()} if is_a(values, Mapping) else None


def _is_cached(value: object, name: str) -> bool:
    return isinstance(getattr(type(value), name, None), functools.cached_property)


def plain(value: Any, depth: int = 0) -> Plain:
    """Return a value as JSON could hold it; an object becomes its type and its own plain parts."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth >= _DEPTH:
        return type(value).__qualname__
    if is_a(value, Mapping):
        return {str(plain(key)): plain(part, depth + 1) for key, part in value.items()}
    if is_a(value, list, tuple):
        return [plain(part, depth + 1) for part in value]
    if is_a(value, AbstractSet):
        return sorted((plain(part, depth + 1) for part in value), key=repr)
    if isinstance(value, type) or callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    parts: Any = getattr(value, "__dict__", None)
    if parts and is_a(parts, dict):
        return {"type": type(value).__qualname__, **{k: plain(v, depth + 1) for k, v in parts.items()}}
    return _ADDRESS.sub("", repr(value))
