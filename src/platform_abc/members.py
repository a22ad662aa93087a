"""The members of the contract as data, derived from the Protocols and ABCs that declare them."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import attrs

from platform_abc._calls import Call
from platform_abc._groups import calls, declarations

Kind = Literal["attribute", "property", "method", "classmethod"]
Default = Literal["none", "value", "answer", "not-supported"]


@attrs.frozen
class MemberSpec:
    """One member of the contract.

    Args:
        name: of the member.
        group: `identity`, `config_hooks`, `pickers`, `kernel_hooks`, `device` or `capabilities`.
        kind: how the ABC defines it; a platform must keep a class method a class method.
        mandatory: every platform must define it.
        default: what a platform gets that does not: `none` for a mandatory member, a `value`, an `answer` of
            a method, or `not-supported`, when the default raises `NotSupported`.
        version: the version of its group's Protocol, 1 for the frozen one.
        calls: the calls that an engine makes of it.
        summary: the first sentence of its description.
    """

    name: str
    group: str
    kind: Kind
    mandatory: bool
    default: Default
    version: int
    calls: tuple[Call, ...]
    summary: str


def _kind(default: object) -> Kind:
    if isinstance(default, classmethod):
        return "classmethod"
    if isinstance(default, property):
        return "property"
    return "method" if callable(default) else "attribute"


def _default(default: object, *, mandatory: bool) -> Default:
    if mandatory:
        return "none"
    if _never_returns(default):
        return "not-supported"
    return "value" if _kind(default) == "attribute" else "answer"


def _never_returns(member: object) -> bool:
    """Say whether all that a method can do is raise: it was compiled without a return."""
    function = getattr(member, "__func__", member)
    code = getattr(function, "__code__", None)
    return code is not None and not any(
        instruction.opname.startswith("RETURN_") for instruction in dis.get_instructions(code)
    )


def _summary(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def _spec(name: str) -> MemberSpec:
    one = declarations()[name]
    described = one.declared if _kind(one.default) == "attribute" else one.default
    return MemberSpec(
        name=name,
        group=one.group.name,
        kind=_kind(one.default),
        mandatory=one.mandatory,
        default=_default(one.default, mandatory=one.mandatory),
        version=one.version,
        calls=calls(name),
        summary=_summary(described),
    )


def _without_protocol() -> list[MemberSpec]:
    """Return the two members that no Protocol can declare: a private value, and the fallback itself."""
    pool = MemberSpec(
        name="_global_graph_pool",
        group="device",
        kind="attribute",
        mandatory=False,
        default="value",
        version=1,
        calls=(),
        summary="What get_global_graph_pool keeps; None until it is first called.",
    )
    fallback = MemberSpec(
        name="__getattr__",
        group="device",
        kind="method",
        mandatory=False,
        default="answer",
        version=1,
        calls=(Call(("name",)),),
        summary="Answer every name that the platform does not define with what torch.<device_type> has.",
    )
    return [pool, fallback]


MEMBERS: Final[Mapping[str, MemberSpec]] = MappingProxyType(
    {spec.name: spec for spec in [*map(_spec, declarations()), *_without_protocol()]}
)
"""Every member by name, group after group."""
