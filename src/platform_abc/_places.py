"""Where in a file an override stands, so that a warning about it leads to the line to change."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, Final

_LONGEST_DECORATION: Final = 50
"""Lines between the first decorator of a function and its `def`, at most."""

Place = tuple[str, int]
"""A file, and a line in it."""


def place_of(override: object, name: str, owner: type, cls: type) -> Place:
    """Return file and line of an override, as near as can be told.

    Args:
        override: what the owner has under the name, unbound.
        name: of the member.
        owner: the class whose body has the override.
        cls: the class that is being defined, `owner` itself or one that inherits it.
    """
    statement = _of_statement(cls)
    return (
        _of_function(override, name)
        or _in_class(owner, name, statement if owner is cls else None)
        or statement
    )


def _of_function(override: object, name: str) -> Place | None:
    """Return file and line of the `def`; None unless a function of this very name was written."""
    for function in _functions_behind(override):
        code: object = getattr(function, "__code__", None)
        # Not of another name: a wrapper stands in the decorator's module, a lambda or a helper anywhere.
        if isinstance(code, CodeType) and code.co_name == name:
            return code.co_filename, _line_of_def(code, name)
    return None


def _functions_behind(override: object) -> Iterator[object]:
    """Yield the function of a method or property, and those that its decorators have wrapped."""
    if isinstance(override, property):
        function: Any = override.fget
    else:
        function = getattr(override, "__func__", override)
    for _ in range(_LONGEST_DECORATION):
        yield function
        inner: object = getattr(function, "__dict__", {}).get("__wrapped__")
        if inner is None:
            return
        function = getattr(inner, "__func__", inner)


def _line_of_def(code: CodeType, name: str) -> int:
    # A function's first line is that of its first decorator.
    written = re.compile(rf"\s*(async\s+)?def\s+{re.escape(name)}\b")
    for line in range(code.co_firstlineno, code.co_firstlineno + _LONGEST_DECORATION):
        if written.match(linecache.getline(code.co_filename, line)):
            return line
    return code.co_firstlineno


def _in_class(owner: type, name: str, statement: Place | None) -> Place | None:
    """Return file and line where the class body gives the name; None if the source is not there.

    Args:
        owner: the class.
        name: the name.
        statement: where the class is being defined, if it is; a file may define a class twice.
    """
    try:
        filename = inspect.getsourcefile(owner)
        lines, first = inspect.findsource(owner)
        tree = ast.parse("".join(lines))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if filename is None:
        return None
    named = [
        node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == owner.__name__
    ]
    for file, line in (statement or (filename, 0), (filename, first + 1)):
        for node in named:
            if file == filename and _first_line(node) <= line <= node.lineno:
                given = [each for part in node.body for each in _lines_that_give(name, part)]
                return filename, given[-1] if given else node.lineno
    return filename, first + 1


def _first_line(node: ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _lines_that_give(name: str, node: ast.AST) -> Iterator[int]:
    """Yield the lines at which a statement of a class body gives a name, by any means but a call."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if node.name == name:
            yield node.lineno
        return
    if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
        yield node.lineno
    if isinstance(node, ast.Assign) and _is_slots(node):
        for constant in ast.walk(node.value):
            if isinstance(constant, ast.Constant) and constant.value == name:
                yield constant.lineno
    for child in ast.iter_child_nodes(node):
        yield from _lines_that_give(name, child)


def _is_slots(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__slots__" for target in node.targets)


def _of_statement(cls: type) -> Place:
    """Return file and line of the statement that defines the class: the nearest frame of its module."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        of_module = frame.f_globals.get("__name__") == cls.__module__
        if of_module and frame.f_code.co_name not in {"__init_subclass__", "__new__"}:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return f"<{cls.__module__}>", 1
