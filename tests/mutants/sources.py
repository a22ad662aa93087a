"""Writes the source of generated mutants: a good platform in which one member is spoilt in one way.

A mutant is called `<member>__<operator>`. Its source is a module of its own with one class, so that the
kit finds lines, and a fresh process finds the class, as with a platform that somebody wrote.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import attrs

Kind = Literal["attribute", "property", "method", "classmethod", "staticmethod"]

_STARS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@attrs.frozen
class Member:
    """One member of the contract, as far as an operator needs it.

    Args:
        name: of the member.
        kind: how the base defines it.
        mandatory: the base has no default.
        own: the good platform defines it, and does not inherit the base's default.
        value: what the good platform has: the value of an attribute, else the function.
        answers: the annotation of the answer, as text; of an attribute the type of its value.
    """

    name: str
    kind: Kind
    mandatory: bool
    own: bool
    value: Any
    answers: str


@attrs.frozen
class Recipe:
    """What mutants derive from.

    Args:
        good: `module:Class` of the good platform.
        root: `module:Class` of the base that the engine gives.
    """

    good: str
    root: str


@attrs.frozen
class Operator:
    """One way to spoil a member.

    Args:
        name: the part of a mutant's name after the two underscores.
        says: ends the sentence "`member` …".
        kinds: of the members that it can spoil.
        body: the lines of the class body; None where the member cannot be spoilt so.
    """

    name: str
    says: str
    kinds: tuple[Kind, ...]
    body: Callable[[Member], str | None]


def spoilt(members: Mapping[str, Member]) -> Iterator[str]:
    """Yield the name of every mutant that can be made of these members."""
    for member in members.values():
        for operator in OPERATORS.values():
            if member.kind in operator.kinds and operator.body(member) is not None:
                yield f"{member.name}__{operator.name}"


def split(name: str) -> tuple[str, str]:
    """The member and the operator of a mutant's name."""
    member, _, operator = name.rpartition("__")
    return member, operator


def source(name: str, members: Mapping[str, Member], recipe: Recipe) -> str:
    """Return the module of a mutant.

    Raises:
        KeyError: there is no such member or operator.
    """
    of, how = split(name)
    member, operator = members[of], OPERATORS[how]
    body = operator.body(member)
    if body is None or member.kind not in operator.kinds:
        raise KeyError(name)
    module, _, good = recipe.good.partition(":")
    lines = [
        f'"""A platform in which `{of}` {operator.says}."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    if how == "missing":
        above, _, root = recipe.root.partition(":")
        lines += [
            f"from {module} import {good}",
            f"from {above} import {root}",
            "",
            "_KEPT = {}",
            f"for _cls in reversed({good}.__mro__):",
            f"    if not issubclass({root}, _cls):",
            "        _KEPT.update(vars(_cls))",
            f"for _name in ({of!r}, '__module__', '__dict__', '__weakref__'):",
            "    _KEPT.pop(_name, None)",
            "",
            "",
            f"class {name}({root}):",
            "    vars().update(_KEPT)",
        ]
    else:
        lines += [f"from {module} import {good}", "", "", f"class {name}({good}):"]
        lines += [f"    {line}" if line else "" for line in body.splitlines()]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------- signatures


def _parameters(member: Member) -> list[inspect.Parameter]:
    """The parameters of the good platform's function, without annotations."""
    function = member.value.fget if isinstance(member.value, property) else member.value
    return [one.replace(annotation=one.empty) for one in inspect.signature(function).parameters.values()]


def _written(parameters: list[inspect.Parameter]) -> str:
    return str(inspect.Signature(parameters))


def _passed(parameters: list[inspect.Parameter]) -> str:
    """The arguments of a call that hands every parameter but the first on."""
    return ", ".join(
        f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else f"{_star(one)}{one.name}"
        for one in parameters[1:]
    )


def _star(parameter: inspect.Parameter) -> str:
    return {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")


def _named(member: Member) -> list[inspect.Parameter]:
    return [one for one in _parameters(member)[1:] if one.kind not in _STARS]


def _function(member: Member, written: str, answer: str) -> str:
    above = "@classmethod\n" if member.kind == "classmethod" else ""
    return f"{above}def {member.name}{written}:\n    {answer}"


def _fewer(member: Member) -> str | None:
    if not _named(member):
        return None
    parameters = _parameters(member)
    last = _named(member)[-1]
    kept = [one for one in parameters if one.name != last.name]
    passed = [_passed(kept)] if _passed(kept) else []
    # What is left out goes on as None, so that the signature alone is wrong.
    if last.default is last.empty:
        passed.append(f"{last.name}=None")
    return _function(member, _written(kept), f"return super().{member.name}({', '.join(passed)})")


def _more(member: Member) -> str:
    parameters = _parameters(member)
    extra = inspect.Parameter("stream_of_chip", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    place = next(
        (
            index
            for index, one in enumerate(parameters)
            if one.default is not one.empty or one.kind not in (extra.kind, one.POSITIONAL_ONLY)
        ),
        len(parameters),
    )
    if place < len(parameters):
        extra = extra.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        place = next(
            (index for index, one in enumerate(parameters) if one.kind is one.VAR_KEYWORD), len(parameters)
        )
    more = [*parameters[:place], extra, *parameters[place:]]
    return _function(member, _written(more), f"return super().{member.name}({_passed(parameters)})")


def _renamed(member: Member) -> str | None:
    if not _named(member):
        return None
    parameters = _parameters(member)
    new = [
        one if index == 0 or one.kind in _STARS else one.replace(name=f"{one.name}_of_chip")
        for index, one in enumerate(parameters)
    ]
    passed = ", ".join(
        f"{old.name}={one.name}" if one.kind is one.KEYWORD_ONLY else f"{_star(one)}{one.name}"
        for old, one in zip(parameters[1:], new[1:], strict=True)
    )
    return _function(member, _written(new), f"return super().{member.name}({passed})")


# ------------------------------------------------------------------------------- answers and kinds


def _wrong_value(member: Member) -> str:
    """A literal of another type than the member's."""
    if member.answers.startswith(("int", "float", "object")):
        return "'forty-two'"
    return "42"


def _wrong_type(member: Member) -> str | None:
    if member.kind == "attribute":
        return f"{member.name} = {_wrong_value(member)}"
    if member.kind == "property":
        return f"@property\ndef {member.name}(self):\n    return {_wrong_value(member)}"
    return _function(member, _written(_parameters(member)), f"return {_wrong_value(member)}")


def _raises(member: Member) -> str:
    answer = f"raise RuntimeError('{member.name}: the driver answered with status 3')"
    if member.kind in ("attribute", "property"):
        return f"@property\ndef {member.name}(self):\n    {answer}"
    return _function(member, _written(_parameters(member)), answer)


def _missing(member: Member) -> str | None:
    return "" if member.own else None


def _not_callable(member: Member) -> str:
    return f"{member.name} = 42"


def _none(member: Member) -> str:
    return f"{member.name} = None"


def _property(member: Member) -> str:
    if member.kind == "attribute":
        return f"@property\ndef {member.name}(self):\n    return super().{member.name}"
    needed = [one for one in _named(member) if one.default is one.empty]
    answer = "return None" if needed else f"return super().{member.name}()"
    return f"@property\ndef {member.name}(self):\n    {answer}"


def _instance(member: Member) -> str:
    """An instance method: of a class method, or where the engine reads a value."""
    if member.kind in ("attribute", "property"):
        return f"def {member.name}(self):\n    return super().{member.name}"
    parameters = _parameters(member)
    parameters[0] = parameters[0].replace(name="self")
    return (
        f"def {member.name}{_written(parameters)}:\n    return super().{member.name}({_passed(parameters)})"
    )


_EVERY: Final[tuple[Kind, ...]] = ("attribute", "property", "method", "classmethod", "staticmethod")
_CALLED: Final[tuple[Kind, ...]] = ("method", "classmethod", "staticmethod")

OPERATORS: Final[Mapping[str, Operator]] = {
    one.name: one
    for one in (
        Operator("wrong_type", "is, or answers with, a value of another type", _EVERY, _wrong_type),
        Operator("not_callable", "is a number", _CALLED, _not_callable),
        Operator("fewer", "lacks its last parameter", _CALLED, _fewer),
        Operator("more", "has one more parameter that must be given", _CALLED, _more),
        Operator("renamed", "has other names for its parameters", _CALLED, _renamed),
        Operator("raises", "raises", _EVERY, _raises),
        Operator("missing", "is not defined", _EVERY, _missing),
        Operator("none", "is None", _EVERY, _none),
        Operator("property", "is a property", ("attribute", *_CALLED), _property),
        Operator(
            "instance",
            "is an instance method",
            ("attribute", "property", "classmethod", "staticmethod"),
            _instance,
        ),
    )
}
"""Every way to spoil a member, by name."""
