"""Where in a source file something is written that Python itself cannot point to."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from typing import Any, Final

_SETTERS: Final = ("setattr", "__setattr__")
_CHANGERS: Final = ("append", "extend", "insert", "remove", "clear", "update", "setdefault", "pop")


def line_at(place: str) -> str:
    """The line of code at a `file:line`; empty where there is none to be seen."""
    file, _, line = place.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file and line.isdigit() else ""


def quoted(place: str) -> str:
    """`, in the line ‹code›` for the end of a sentence about what was raised; empty where it cannot be seen."""
    code = line_at(place)
    return f", in the line `{code}`" if code else ""


def on_instance(cls: type, name: str) -> str:
    """`file:line` of the statement in a class that sets `self.<name>`; empty where there is none to be seen."""
    try:
        lines, first = inspect.getsourcelines(cls)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        file = inspect.getsourcefile(cls)
    except (TypeError, OSError, SyntaxError):
        return ""
    found: Any = next((node for node in ast.walk(tree) if name in _set_by(node)), None)
    return f"{file}:{first + found.lineno - 1}" if found is not None else ""


def written(function: object, name: str) -> str:
    """`file:line` of the first statement of a function that writes something of a name, or empty.

    That is an attribute or a key of the name, as in `config.name = …`, `names["name"] = …`, or a call that gets
    the key first, as in `environ.setdefault("name", …)`.
    """
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))  # type: ignore[arg-type]
        tree = ast.parse(textwrap.dedent("".join(lines)))
        file = inspect.getsourcefile(inspect.unwrap(function))  # type: ignore[arg-type]
    except (TypeError, OSError, SyntaxError, ValueError):
        return ""
    found: Any = next((node for node in ast.walk(tree) if _writes(node, name)), None)
    return f"{file}:{first + found.lineno - 1}" if found is not None else ""


def _writes(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete):
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        return any(_is_named(target, name) for target in targets)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of_it = node.func.attr in _CHANGERS and _is_named(node.func.value, name)
    key = node.args[0] if node.args and node.func.attr in ("setdefault", "pop", "putenv") else None
    return of_it or (isinstance(key, ast.Constant) and key.value == name)


def _is_named(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Subscript):
        return isinstance(target.slice, ast.Constant) and target.slice.value == name
    return isinstance(target, ast.Attribute) and target.attr == name


def _set_by(node: ast.AST) -> Iterator[str]:
    """The names that a statement or call sets on `self`."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Attribute) and _is_self(one.value):
                    yield one.attr
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in _SETTERS and _is_self(node.args[0]) and isinstance(node.args[1], ast.Constant):
            yield str(node.args[1].value)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
