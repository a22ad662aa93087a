"""What a platform's import replaces that every other module of the process lives on, the kit among them."""

from __future__ import annotations

import builtins
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

import attrs

from conformance.context import is_a

_HARMLESS: Final = frozenset(
    {"print", "input", "open", "help", "exit", "quit", "breakpoint", "copyright", "credits", "license", "_"}
)
"""Builtins that shells and loggers replace, with something that does the same."""
_PYTHONS: Final = (os, signal, select, json, time)
"""Modules whose functions the kit calls; what is replaced there is told where the kit then fails."""
_KIT: Final = "conformance"


@attrs.frozen
class Whole:
    """How things stood before an import: the values by name, by module.

    Args:
        modules: what stood in `sys.modules` for each part of the kit.
        values: what each part of the kit, `builtins`, and the modules of Python's that the kit uses held.
        classes: what each class of the kit held, by its dotted name.
    """

    modules: Mapping[str, ModuleType]
    values: Mapping[str, Mapping[str, object]]
    classes: Mapping[str, tuple[type, Mapping[str, object]]]


def look() -> Whole:
    """Remember how things stand."""
    kit = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] == _KIT and is_a(module, ModuleType)
    }
    held = {module.__name__: dict(vars(module)) for module in (builtins, *_PYTHONS)}
    classes = {
        f"{name}.{one}": (value, dict(vars(value)))
        for name, module in kit.items()
        for one, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == name
    }
    return Whole(kit, {**held, **{name: dict(vars(module)) for name, module in kit.items()}}, classes)


def undo(before: Whole) -> list[str]:
    """Put back what was replaced of Python's builtins and of the kit, and name it.

    Uses nothing that may have been replaced.
    """
    changed: list[str] = []
    held = builtins.__dict__
    for name, value in before.values["builtins"].items():
        if held.get(name, None) is not value and name not in _HARMLESS and not name.startswith("__"):
            held[name] = value
            changed.append(f"builtins.{name}")
    for name, module in before.modules.items():
        if sys.modules.get(name) is not module:
            sys.modules[name] = module
            changed.append(name)
        names = module.__dict__
        for one, value in before.values[name].items():
            if names.get(one) is not value and not one.startswith("__"):
                names[one] = value
                changed.append(f"{name}.{one}")
    for name, (cls, values) in before.classes.items():
        for one, value in values.items():
            if cls.__dict__.get(one) is not value and not one.startswith(("__", "_abc")):
                type.__setattr__(cls, one, value)
                changed.append(f"{name}.{one}")
    return changed


def replaced(before: Whole) -> list[str]:
    """Name the functions of Python's own modules that were replaced and that the kit uses."""
    return [f"{module.__name__}.{name}" for module in _PYTHONS for name in _changed(module, before)]


def _changed(module: ModuleType, before: Whole) -> Iterator[str]:
    now: Mapping[str, Any] = vars(module)
    for name, value in before.values[module.__name__].items():
        if callable(value) and now.get(name) is not value:
            yield name
