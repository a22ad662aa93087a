"""The calls that an engine makes of a hook, read off the Protocol that declares it, and who can take them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple


class Call(NamedTuple):
    """One way in which an engine calls a hook.

    Args:
        args: what it passes by position, by the Protocol's names; an override may name them otherwise.
        keywords: what it passes by keyword; an override must use these names.
    """

    args: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()

    def of(self, member: str) -> str:
        """Return the call as text, for messages."""
        return f"{member}({', '.join([*self.args, *(f'{name}=…' for name in self.keywords)])})"


def calls_of(declaration: Callable[..., object]) -> tuple[Call, ...]:
    """Return the calls that a method of a Protocol allows: the shortest and the longest, in each spelling.

    Args:
        declaration: the plain function, with `self` first.
    """
    parameters = list(inspect.signature(declaration).parameters.values())[1:]
    calls: dict[Call, None] = {}
    for complete in (False, True):
        for by_keyword in (False, True):
            args: list[str] = []
            keywords: list[str] = []
            for parameter in parameters:
                if not complete and parameter.default is not inspect.Parameter.empty:
                    continue
                free = by_keyword and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
                keyword = free or parameter.kind is inspect.Parameter.KEYWORD_ONLY
                (keywords if keyword else args).append(parameter.name)
            calls[Call(tuple(args), tuple(keywords))] = None
    return tuple(calls)


class _Passed(NamedTuple):
    """Stands for the argument that an engine passes by position under this name."""

    name: str


def refused(
    function: Callable[..., Any],
    calls: tuple[Call, ...],
    *,
    bound: bool,
    given: functools.partialmethod[Any] | None = None,
) -> tuple[Call, str] | None:
    """Return the first of the calls that a function cannot take, and why; None if it takes them all.

    A function that has the parameters in another order would take a call, but each value for another one;
    that counts as refusing it.

    Args:
        function: the function behind a class method, static method or method.
        calls: what the engine does.
        bound: the first parameter is `self` or `cls`.
        given: the partial method that adds arguments of its own.
    """
    signature = _signature(function)
    if signature is None:
        return None
    first: tuple[object, ...] = ("self",) if bound else ()
    added: Mapping[str, object] = {}
    if given is not None:
        first, added = (*first, *given.args), given.keywords
    for call in calls:
        try:
            taken = signature.bind(
                *first, *map(_Passed, call.args), **{**added, **dict.fromkeys(call.keywords)}
            )
        except TypeError as error:
            return call, str(error)
        for parameter, value in taken.arguments.items():
            misled = parameter in call.args or parameter in call.keywords
            if misled and isinstance(value, _Passed) and value.name != parameter:
                return call, f"it would take {value.name} for {parameter}, which come in this order"
    return None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the parameters that count: those of a decorator's wrapper, unless it passes everything on."""
    try:
        outer = inspect.signature(function, follow_wrapped=False)
        kinds = {parameter.kind for parameter in outer.parameters.values()}
        if kinds >= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            return _wrapped_signature(function)
        return outer
    except (ValueError, TypeError):
        # No signature of its own, such as a C function around a Python one.
        return _wrapped_signature(function)


def _wrapped_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def same_parameters(one: object, other: object) -> bool:
    """Say, at little cost, whether two plain functions have the same parameters and defaults."""
    if not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return False
    return _layout(one) == _layout(other)


def _layout(function: FunctionType) -> tuple[object, ...]:
    code = function.__code__
    named = code.co_argcount + code.co_kwonlyargcount
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        # The first is `self` or `cls`, whatever it is called.
        code.co_varnames[1:named],
        len(function.__defaults__ or ()),
        sorted(function.__kwdefaults__ or ()),
    )
