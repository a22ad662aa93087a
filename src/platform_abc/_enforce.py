"""What happens when a subclass of `Platform` is defined: mandatory members and overrides are checked.

A missing mandatory member is an error. An override that an engine could not use is a warning at its line:
the class still works as far as it goes, and a vendor who sees the warning can fix it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Iterator
from types import FunctionType, MemberDescriptorType
from typing import Any, Final, cast

from platform_abc._calls import refused, same_parameters
from platform_abc._groups import Declaration, calls, declarations, mandatory
from platform_abc._places import place_of
from platform_abc._required import explain, missing
from platform_abc.errors import ContractWarning

_OTHER_THAN_A_VALUE: Final = {
    inspect.CO_COROUTINE: "is a coroutine function, so the engine would get a coroutine instead of the answer",
    inspect.CO_ASYNC_GENERATOR: "is an async generator, so the engine would get that instead of the answer",
    inspect.CO_GENERATOR: "is a generator function, so its body would never run",
}


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
            f"is {_kind(override)}, but it is read on the class as well; "
            f"write a plain value: `{name} = …` in the class body"
        )
    return _method_fault(name, override, declaration.default)


def _property_fault(override: object) -> str:
    if _is_a(override, classmethod) and isinstance(_function_of(override), property):
        return ""
    if _is_a(override, classmethod) or _is_a(override, staticmethod) or callable(override):
        return f"is {_kind(override)}, but the engine reads it without a call; make it a property"
    return ""


def _method_fault(name: str, override: object, default: object) -> str:
    # Binding a partial method binds what it is made of.
    given = _partial_method(override)
    inner: object = override if given is None else given.func
    if not callable(_function_of(inner)):
        if _binds(override) and not isinstance(override, (property, MemberDescriptorType)):
            # A descriptor that this module does not know may well give something callable.
            return ""
        wanted = "class method" if _is_a(default, classmethod) else "method"
        return f"is {_kind(override)}, but the engine calls it; make it a {wanted}"
    faults: list[str] = []
    if _is_a(default, classmethod) and not _is_a(inner, classmethod):
        if _binds(inner) and not _is_a(inner, staticmethod):
            consequence = "but it may be called on the class as well"
        else:
            consequence = "so it does not get the class that it is called on"
        faults.append(f"is {_kind(override)}, {consequence}; make it a class method")
    faults.extend(_call_faults(name, inner, given, _function_of(default)))
    return "; and it ".join(faults)


def _call_faults(
    name: str, inner: object, given: functools.partialmethod[Any] | None, default: object
) -> Iterator[str]:
    function = _function_of(inner)
    bound = _binds(inner) and not _is_a(inner, staticmethod)
    if callable(function) and not (given is None and bound and same_parameters(function, default)):
        problem = refused(function, calls(name), bound=bound, given=given)
        if problem is not None:
            call, why = problem
            yield f"cannot take the engine's call {call.of(name)}: {why}; accept these arguments"
    if isinstance(function, FunctionType):
        for flag, text in _OTHER_THAN_A_VALUE.items():
            if function.__code__.co_flags & flag:
                yield f"{text}; make it a plain function"


def _partial_method(override: object) -> functools.partialmethod[Any] | None:
    if _is_a(override, functools.partialmethod):
        return cast("functools.partialmethod[Any]", override)
    return None


def _function_of(member: object) -> object:
    """Return the function behind a class method or static method, else the member itself."""
    return getattr(member, "__func__", member)


def _is_a(member: object, kind: type) -> bool:
    # Not isinstance in place: it would narrow to a generic type without its parameters.
    return isinstance(member, kind)


def _binds(member: object) -> bool:
    """Say whether reading the member on a class or an instance gives something else than the member."""
    if isinstance(member, functools.partial) and sys.version_info < (3, 14):
        # Python 3.13 gives it the method, but only to announce that a later version will bind.
        return False
    return hasattr(type(member), "__get__")


def _kind(override: object) -> str:
    """Return what an override is, with its article."""
    if override is None:
        return "a None value"
    for kind, words in (
        (staticmethod, "a static method"),
        (classmethod, "a class method"),
        (functools.partialmethod, "a partial method of instances"),
        (FunctionType, "a method of instances"),
        (MemberDescriptorType, "a slot"),
        (type, "a class"),
    ):
        if _is_a(override, kind):
            return words
    word = type(override).__name__
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


def _warn(cls: type, owner: type, name: str, override: object, fault: str) -> None:
    """Warn at the line of the override, so that the message leads there and filters by module work."""
    filename, line = place_of(override, name, owner, cls)
    module = sys.modules.get(owner.__module__)
    warnings.warn_explicit(
        f"{owner.__module__}.{owner.__qualname__}.{name} {fault}",
        ContractWarning,
        filename,
        line,
        module=owner.__module__,
        registry=None if module is None else module.__dict__.setdefault("__warningregistry__", {}),
    )
