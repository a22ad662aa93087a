"""Members as such: what kind each is, whether it takes the engine's calls, and what may not be left open."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.checks._signatures import (
    Shape,
    base_shapes,
    bound_signature,
    only_declines,
    open_ended,
    refusal,
)
from conformance.context import ApartFailed, CheckContext, describe, kind_of
from conformance.engines.base import EngineCall, Member
from conformance.engines.source_scan import applies, by_member
from conformance.model import Finding, Level, Violation
from conformance.registry import check
from platform_abc.errors import DeviceUnavailable, MissingDependency

_CALLED: Final = frozenset({"method", "classmethod", "staticmethod"})
_FROM_CLASS: Final = frozenset({"classmethod", "staticmethod"})
_CALLED_ELSEWHERE: Final = frozenset(
    {
        "apply_config_platform_defaults",
        "check_and_update_config",
        "get_attn_backend_cls",
        "pre_register_and_update",
        "set_additional_forward_context",
        "update_block_size_for_backend",
        "validate_request",
    }
)
"""Members whose own checks call them and blame NotImplementedError as well."""


def _overridden(ctx: CheckContext) -> Iterator[tuple[Member, Any]]:
    """The members of the base that the platform defines anew, with the raw override."""
    for name, member in ctx.adapter.members().items():
        if ctx.overridden(name):
            yield member, ctx.raw(name)


def _wrong_kind(member: Member, raw: Any) -> tuple[str, str]:
    """What the override is instead of what the base is, and the remedy; empty if it fits."""
    name = member.name
    if member.kind == "property":
        if isinstance(raw, property | functools.cached_property) or not _is_callable(raw):
            return "", ""
        if isinstance(getattr(raw, "__func__", None), property):
            return "", ""  # a class property, as Python 3.11 still has them
        above = "" if inspect.isfunction(raw) else ", in place of what stands there"
        return (
            "a function",
            f"Write `@property` above `{name}`{above}: the engine reads it without calling it.",
        )
    if member.kind not in _CALLED:
        return "", ""
    if isinstance(raw, property | functools.cached_property):
        return "a property", f"Replace `@property` above `{name}` by `@classmethod`: the engine calls it."
    if isinstance(raw, functools.partialmethod):
        raw = raw.func  # binds what it is made of
    if not _is_callable(raw):
        if _binds(raw):
            return "", ""  # a descriptor of the vendor's own: what it gives is judged where it is called
        return kind_of(raw), f"Remove `{name}`, or make it a function: the engine calls it."
    function = getattr(raw, "__func__", raw)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "a coroutine function", f"Write `def {name}`, not `async def`: the engine does not await it."
    if inspect.isgeneratorfunction(function) and not inspect.isgeneratorfunction(member.value):
        return "a generator function", f"Replace `yield` by `return` in `{name}`."
    if member.kind in _FROM_CLASS and inspect.isfunction(raw):
        return (
            "an instance method",
            f"Write `@classmethod` above `{name}`, with `cls` as the first parameter.",
        )
    return "", ""


def _binds(raw: object) -> bool:
    """Say whether reading it on a class or an instance gives something else than itself."""
    return hasattr(type(raw), "__get__")


def _is_callable(raw: Any) -> bool:
    return isinstance(raw, classmethod | staticmethod) or callable(raw)


@check(
    "members.kinds",
    group="identity",
    per_member=True,
    level=Level.STATIC,
    why="Engines call some hooks on the class and read others without a call; another kind fails there.",
    hint="Define each member as the base does: classmethod, method or property.",
)
def kinds(ctx: CheckContext) -> None:
    """Each override is of the kind that the base's member is, or of one that works in its place."""
    findings: list[Finding] = []
    for member, raw in _overridden(ctx):
        what, hint = _wrong_kind(member, raw)
        if what:
            also = "; the engine also uses it on the class" if member.kind in _FROM_CLASS else ""
            findings.append(
                ctx.finding(
                    member.name,
                    contract_says=f"`{member.name}` is a {member.kind} in the base class{also}.",
                    platform_did=f"{ctx.platform_cls.__name__} makes it {what}",
                    hint=hint,
                )
            )
    if findings:
        raise Violation(*findings)


def _callable_overrides(
    ctx: CheckContext,
) -> Iterator[tuple[Member, inspect.Signature, inspect.Signature | None]]:
    """Overridden members that are called, with the override's signature and the base's, both bound."""
    for member, raw in _overridden(ctx):
        if member.kind not in _CALLED or _wrong_kind(member, raw)[0] not in ("", "an instance method"):
            continue
        if _takes_nothing(raw):
            continue  # said below: Python cannot even bind it
        override = bound_signature(getattr(ctx.platform, member.name))
        base = bound_signature(member.value)
        if base is not None and member.kind != "staticmethod":
            base = base.replace(parameters=list(base.parameters.values())[1:])
        if override is not None:
            yield member, override, base


def _function(raw: Any) -> Any:
    """The function behind a classmethod; anything else as it is."""
    return getattr(raw, "__func__", raw)


def _takes_nothing(raw: Any) -> bool:
    """Say whether a function that is called on a class or an instance has no parameter for that."""
    if isinstance(raw, staticmethod):
        return False
    function: Any = getattr(raw, "__func__", raw)
    if not inspect.isfunction(function):
        return False
    signature = bound_signature(function)
    return signature is not None and not any(
        one.kind is not one.KEYWORD_ONLY and one.kind is not one.VAR_KEYWORD
        for one in signature.parameters.values()
    )


def _engine_shapes(ctx: CheckContext) -> Mapping[str, Sequence[tuple[Shape, str]]]:
    """The calls of the engine, by member: shape and where it is; then the ones that the adapter knows."""
    shapes: dict[str, dict[Shape, str]] = {}
    for name, uses in by_member(ctx.adapter.engine_calls()).items():
        for use in uses:
            if not use.is_read and use.exact and applies(use.requires, ctx.platform):
                shapes.setdefault(name, {}).setdefault(Shape(use.positional, use.keywords), use.site)
    found_in_source = frozenset(shapes)  # an older engine asks differently where it sees older parameters
    for one in ctx.adapter.selector_calls():
        shape = Shape(len(one.args), tuple(one.kwargs))
        if "get_attn_backend_cls" not in found_in_source:
            shapes.setdefault("get_attn_backend_cls", {}).setdefault(shape, "the attention selector")
    for member, _ in _overridden(ctx):
        for call in ctx.adapter.arguments(member.name):
            shape = Shape(len(call.args), tuple(call.kwargs))
            shapes.setdefault(member.name, {}).setdefault(shape, "the engine")
    return {name: tuple(found.items()) for name, found in shapes.items()}


def _refused_by_engine(ctx: CheckContext) -> Mapping[str, Finding]:
    shapes = _engine_shapes(ctx)
    refused: dict[str, Finding] = {}
    for member, raw in _overridden(ctx):
        if member.kind in _CALLED and not _wrong_kind(member, raw)[0] and _takes_nothing(raw):
            first = "cls" if isinstance(raw, classmethod) else "self"
            function = _function(raw)
            refused[member.name] = ctx.finding(
                member.name,
                contract_says=f"`{member.name}` is called on the platform, which Python passes as the first argument.",
                platform_did=f"it has no parameter for that: `def {member.name}{bound_signature(function)}`",
                hint=f"Write def {member.name}({first}, …), or mark it as a staticmethod.",
            )
    for member, override, base in _callable_overrides(ctx):
        bad = [(shape, site, refusal(base, override, shape)) for shape, site in shapes.get(member.name, ())]
        bad = [one for one in bad if one[2]]
        if bad:
            shape, site, why = bad[0]
            more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            refused[member.name] = ctx.finding(
                member.name,
                contract_says=f"`{member.name}` takes the call {shape.spelled(member.name)} of {site}{more}.",
                platform_did=f"its parameters are {override}: {why}",
                hint=f"Give it the base's parameters: def {member.name}(cls, "
                f"{str(base).removeprefix('(') if base else '…)'}",
            )
    return refused


@check(
    "members.engine-calls",
    group="identity",
    per_member=True,
    why="The engine passes arguments as its own base takes them; another signature is a TypeError in a run.",
    hint="Copy the signature from the installed base class.",
)
def engine_calls(ctx: CheckContext) -> None:
    """Each override takes every call that the installed engine makes, value by value."""
    refused = _refused_by_engine(ctx)
    if refused:
        raise Violation(*refused.values())


@check(
    "members.base-signature",
    group="identity",
    severity="should",
    why="Whatever the base class accepts may be called tomorrow, by the engine or by another plugin.",
    hint="Keep the base's parameters and their defaults; add only parameters with defaults.",
)
def base_signature(ctx: CheckContext) -> None:
    """Each override takes every call that the installed base takes."""
    reported = _refused_by_engine(ctx)
    findings: list[Finding] = []
    for member, override, base in _callable_overrides(ctx):
        if base is None or open_ended(base) or member.name in reported or member.name.startswith("__"):
            continue
        for shape in base_shapes(base):
            why = refusal(base, override, shape)
            if why:
                findings.append(
                    ctx.finding(
                        member.name,
                        contract_says=f"`{member.name}` takes what the base takes: {base}.",
                        platform_did=f"its parameters are {override}: "
                        f"{shape.spelled(member.name)} fails, {why}",
                        hint=f"Write def {member.name}(cls, {str(base).removeprefix('(')}",
                    )
                )
                break
    if findings:
        raise Violation(*findings)


def _declines(ctx: CheckContext, member: Member) -> str:
    """Say how an override of the common path declines, by its body or when it is called; empty if it does not."""
    if only_declines(ctx.raw(member.name)):
        return "its body only raises"
    needs_device = member.group == "device" and bool(ctx.device_missing())
    if needs_device or member.kind not in _CALLED or _wrong_kind(member, ctx.raw(member.name))[0]:
        return ""

    def ask() -> str:
        with ctx.adapter.active(ctx.platform):
            for call in ctx.adapter.arguments(member.name):
                try:
                    getattr(ctx.platform, member.name)(*call.args, **call.kwargs)
                except (MissingDependency, DeviceUnavailable):
                    continue
                except NotImplementedError as error:
                    return f"called, it raised {describe(error)}"
                except (Exception, SystemExit) as error:
                    ctx.details[member.name] = describe(error)  # judged by the checks about its answer
        return ""

    try:
        return ctx.apart(ask)
    except ApartFailed:
        return ""


def _common(ctx: CheckContext) -> Iterator[tuple[Member, EngineCall]]:
    members = ctx.adapter.members()
    for name, uses in by_member(ctx.adapter.engine_calls()).items():
        if name not in members:
            continue
        for use in uses:
            if use.common and not use.guarded and not use.is_read and applies(use.requires, ctx.platform):
                yield members[name], use
                break


@check(
    "members.common-path",
    group="identity",
    why="Every plain run calls these members without a guard, so one that only raises stops every run.",
    hint="Implement them; a platform with nothing to do in one returns at once.",
)
def common_path(ctx: CheckContext) -> None:
    """No member that every run calls without a guard is left raising."""
    members = ctx.adapter.members().values()
    left = sorted(one.name for one in members if one.raises and not ctx.overridden(one.name))
    if left:
        ctx.details["left to the base, which only raises"] = left
    findings: list[Finding] = []
    for member, use in _common(ctx):
        own = ctx.overridden(member.name)
        if own and member.name in _CALLED_ELSEWHERE:
            continue
        did = _declines(ctx, member) if own else "it is inherited, and the base's only raises" * member.raises
        if not did:
            continue
        findings.append(
            ctx.finding(
                member.name,
                contract_says=f"Every run calls `{member.name}`, see {use.site}, and nothing there "
                "catches NotImplementedError.",
                platform_did=did,
                hint=f"Implement `{member.name}` in {ctx.platform_cls.__name__}; where there is nothing to do, let it return.",
                location=ctx.locate(member.name if own else ""),
            )
        )
    if findings:
        raise Violation(*findings)
