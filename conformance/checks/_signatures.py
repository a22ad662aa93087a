"""Bind the calls that an engine makes, and those that its base accepts, to a platform's override."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import attrs

_KEYWORD: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_STARS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_NOT_SUPPORTED: Final = ("NotImplementedError", "NotSupported", "not_supported")


@attrs.frozen
class Shape:
    """How a call passes its arguments: how many by position, and which names by keyword."""

    positional: int
    keywords: tuple[str, ...] = ()

    def spelled(self, member: str) -> str:
        """The call as text: `member(_, _, name=…)`."""
        parts = ["_"] * self.positional + [f"{name}=…" for name in self.keywords]
        return f"{member}({', '.join(parts)})"


def bound_signature(function: Any) -> inspect.Signature | None:
    """The signature of a callable as a caller sees it; None where Python cannot tell."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def open_ended(signature: inspect.Signature) -> bool:
    """Say whether it takes `*args` or `**kwargs`, so that only real calls can judge an override."""
    return any(one.kind in _STARS for one in signature.parameters.values())


def _slots(signature: inspect.Signature, shape: Shape) -> dict[str, object]:
    """Which parameter each argument lands in.

    Raises:
        TypeError: the signature does not take the call.
    """
    arguments = [f"argument {index}" for index in range(1, shape.positional + 1)]
    bound = signature.bind(*arguments, **{name: f"keyword {name}" for name in shape.keywords})
    return dict(bound.arguments)


def refusal(base: inspect.Signature | None, override: inspect.Signature, shape: Shape) -> str:
    """Say why the override does not take the call as the base does; empty if it does.

    A value that lands in another named parameter counts where the override has the base's name too:
    then the two are swapped. A parameter that merely has a new name still takes what goes by position.
    """
    try:
        lands = _slots(override, shape)
    except TypeError as error:
        return str(error)
    if base is None:
        return ""
    try:
        meant = _slots(base, shape)
    except TypeError:
        return ""  # the engine calls something that its own base does not take: not the platform's fault
    where = {value: name for name, value in lands.items() if isinstance(value, str)}
    for name, value in meant.items():
        got = where.get(value) if isinstance(value, str) else None
        if got is not None and got != name and name in override.parameters:
            return f"{value}, the base's `{name}`, lands in `{got}`"
    return ""


def base_shapes(base: inspect.Signature) -> Iterator[Shape]:
    """Every way to call the base: required parameters by position, optional ones either way or not at all."""
    parameters = [one for one in base.parameters.values() if one.kind not in _STARS]
    required = [one for one in parameters if one.default is one.empty and one.kind in _POSITIONAL]
    by_name = tuple(one.name for one in parameters if one.default is one.empty and one not in required)
    optional = [one for one in parameters if one.default is not one.empty]
    by_position = [one for one in optional if one.kind in _POSITIONAL]
    for count in range(len(by_position) + 1):
        rest = [one.name for one in optional if one not in by_position[:count] and one.kind in _KEYWORD]
        for size in range(len(rest) + 1):
            for names in itertools.combinations(rest, size):
                yield Shape(len(required) + count, (*by_name, *names))


def only_declines(raw: Any) -> bool:
    """Say whether the body of a function is nothing but `raise NotImplementedError` or its like."""
    function = getattr(raw, "__func__", raw)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (TypeError, OSError, SyntaxError, ValueError):
        return False
    definition = tree.body[0] if tree.body else None
    if not isinstance(definition, ast.FunctionDef):
        return False
    body = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
    if len(body) != 1 or not isinstance(body[0], ast.Raise) or body[0].exc is None:
        return False
    error = body[0].exc.func if isinstance(body[0].exc, ast.Call) else body[0].exc
    name = error.attr if isinstance(error, ast.Attribute) else getattr(error, "id", "")
    return name in _NOT_SUPPORTED
