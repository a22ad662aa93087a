"""What happens when a subclass of `Platform` is defined: mandatory members and overrides are checked.

A missing mandatory member is an error. An override that an engine could not use is a warning at its line:
the class still works as far as it goes, and a vendor who sees the warning can fix it.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import sys
import warnings
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from platform_abc._calls import refused, same_parameters
from platform_abc._groups import Declaration, calls, declarations, mandatory
from platform_abc._required import explain, missing
from platform_abc.errors import ContractWarning

_OTHER_THAN_A_VALUE: Final = {
    inspect.CO_COROUTINE: "is a coroutine function, so the engine would get a coroutine instead of the answer",
    inspect.CO_ASYNC_GENERATOR: "is an async generator, so the engine would get that instead of the answer",
    inspect.CO_GENERATOR: "is a generator function, so its body would never run",
}
_LONGEST_DECORATION: Final = 50


def check_definition(cls: type, root: type, *, abstract: bool) -> None:
    """Check a platform class that was just defined.

    Args:
        cls: the class.
        root: `Platform`.
        abstract: it is a base of other platforms and may leave mandatory members open.

    Raises:
        TypeError: a mandatory member is missing.

    Warns:
        ContractWarning: for each override that an engine cannot use.
    """
    left_open = [] if abstract else missing(cls, mandatory())
    if left_open:
        raise TypeError(explain(cls, left_open))
    for name, owner in _overrides(cls, root):
        override: object = vars(owner)[name]
        fault = _fault(name, override, declarations()[name])
        if fault:
            _warn(cls, owner, name, override, fault)


def _overrides(cls: type, root: type) -> Iterator[tuple[str, type]]:
    """Yield the members that the class, or a mixin that comes in with it, overrides, and which class does."""
    checked = {known for base in cls.__bases__ if issubclass(base, root) for known in base.__mro__}
    names = declarations().keys()
    taken: set[str] = set()
    for owner in cls.__mro__:
        defined = names & vars(owner).keys()
        if owner not in checked:
            for name in sorted(defined - taken):
                yield name, owner
        taken |= defined


def _fault(name: str, override: object, declaration: Declaration) -> str:
    """Return what is wrong with an override, as a phrase after its name; empty if nothing is."""
    if isinstance(declaration.default, property):
        return _property_fault(override)
    if isinstance(declaration.declared, property):
        if not _binds(override):
            return ""
        return (
            f"is a {_kind(override)}, but it is read on the class as well; "
            f"write a plain value: `{name} = …` in the class body"
        )
    return _method_fault(name, override, declaration.default)


def _property_fault(override: object) -> str:
    if _is_a(override, classmethod) and isinstance(_function_of(override), property):
        return ""
    if _is_a(override, classmethod) or _is_a(override, staticmethod) or callable(override):
        return f"is a {_kind(override)}, but the engine reads it without a call; make it a property"
    return ""


def _method_fault(name: str, override: object, default: object) -> str:
    if not callable(_function_of(override)):
        if _binds(override) and not isinstance(override, property):
            # A descriptor that this module does not know may well give something callable.
            return ""
        wanted = "class method" if _is_a(default, classmethod) else "method"
        return f"is a {_kind(override)}, but the engine calls it; make it a {wanted}"
    faults: list[str] = []
    if _is_a(default, classmethod) and not _is_a(override, classmethod):
        faults.append(
            f"is a {_kind(override)}, but class methods call it on the class; make it a class method"
        )
    faults.extend(_call_faults(name, override, _function_of(default)))
    return "; and it ".join(faults)


def _call_faults(name: str, override: object, default: object) -> Iterator[str]:
    function = _function_of(override)
    bound = _binds(override) and not _is_a(override, staticmethod)
    if callable(function) and not (bound and same_parameters(function, default)):
        problem = refused(function, calls(name), bound=bound)
        if problem is not None:
            call, why = problem
            yield f"cannot take the engine's call {call.of(name)}: {why}; accept these arguments"
    if isinstance(function, FunctionType):
        for flag, text in _OTHER_THAN_A_VALUE.items():
            if function.__code__.co_flags & flag:
                yield f"{text}; make it a plain function"


def _function_of(member: object) -> object:
    """Return the function behind a class method or static method, else the member itself."""
    return getattr(member, "__func__", member)


def _is_a(member: object, kind: type) -> bool:
    # Not isinstance in place: it would narrow to a generic type without its parameters.
    return isinstance(member, kind)


def _binds(member: object) -> bool:
    """Say whether reading the member on a class or an instance gives something else than the member."""
    return hasattr(type(member), "__get__")


def _kind(override: object) -> str:
    if override is None:
        return "None value"
    for kind, words in (
        (staticmethod, "static method"),
        (classmethod, "class method"),
        (FunctionType, "method of instances"),
    ):
        if _is_a(override, kind):
            return words
    return type(override).__name__


def _warn(cls: type, owner: type, name: str, override: object, fault: str) -> None:
    """Warn at the line of the override, so that the message leads there and filters by module work."""
    filename, line = _place(override, name) or _place_in_class(owner, name) or _place_of_statement(cls)
    module = sys.modules.get(owner.__module__)
    warnings.warn_explicit(
        f"{owner.__module__}.{owner.__qualname__}.{name} {fault}",
        ContractWarning,
        filename,
        line,
        module=owner.__module__,
        registry=None if module is None else module.__dict__.setdefault("__warningregistry__", {}),
    )


def _place(override: object, name: str) -> tuple[str, int] | None:
    """Return file and line of the `def` of an override; None if it is no Python function."""
    if isinstance(override, property):
        override = override.fget
    function: Any = _function_of(override)
    candidates: list[object] = [function]
    with contextlib.suppress(ValueError):  # it says that it wraps itself
        candidates.append(inspect.unwrap(function))
    for candidate in candidates:
        code: object = getattr(candidate, "__code__", None)
        if isinstance(code, CodeType):
            return _definition(code, name)
    return None


def _definition(code: CodeType, name: str) -> tuple[str, int]:
    """Return file and line of the `def` that made the code."""
    # A function's first line is that of its first decorator.
    for line in range(code.co_firstlineno, code.co_firstlineno + _LONGEST_DECORATION):
        if (
            linecache.getline(code.co_filename, line)
            .lstrip()
            .startswith((f"def {name}", f"async def {name}"))
        ):
            return code.co_filename, line
    return code.co_filename, code.co_firstlineno


def _place_in_class(owner: type, name: str) -> tuple[str, int] | None:
    """Return file and line where the class body assigns the name; None if the source is not there."""
    try:
        filename = inspect.getsourcefile(owner)
        lines, first = inspect.getsourcelines(owner)
    except (OSError, TypeError):
        return None
    if filename is None:
        return None
    for line, text in enumerate(lines, start=first):
        if text.lstrip().startswith((f"{name} ", f"{name}=", f"{name}:")):
            return filename, line
    return filename, first


def _place_of_statement(cls: type) -> tuple[str, int]:
    """Return file and line of the statement that defines the class: the nearest frame of its module."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == cls.__module__ and frame.f_code.co_name != "__init_subclass__":
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return f"<{cls.__module__}>", 1
