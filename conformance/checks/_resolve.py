"""From a dotted name that a platform gave to a class, and what that class has to be."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.context import CheckContext, describe, kind_of, locate
from conformance.engines.base import PickedBase
from conformance.model import Skip


def resolve_class(ctx: CheckContext, member: str, qualname: Any, says: str) -> type:
    """Import what a member named, as the engine does.

    Raises:
        Violation: it is no name, nothing is there, importing it raises, or it is not a class.
        Skip: the platform's distribution declares requirements that are not installed here, or it is a
            part of the engine that needs the device, which is not here.
    """
    if not isinstance(qualname, str) or not qualname:
        raise ctx.fail(
            member,
            contract_says=f"{says}, a string.",
            platform_did=f"it gave {kind_of(qualname)}",
            hint=f'Let `{member}` give "package.module.ClassName".',
        )
    try:
        with ctx.adapter.active(ctx.platform):
            found = ctx.adapter.resolve(qualname)
    except Skip:
        raise
    except (Exception, SystemExit) as error:
        lacking = sorted(_missing_requirements(ctx)) if _is_missing_module(error, _engine(ctx)) else []
        if lacking:
            raise Skip(
                f"{qualname} does not import here, and the platform's requirements are not installed: "
                + ", ".join(lacking),
                f"pip install {' '.join(lacking)}",
            ) from error
        missing = ctx.device_missing()
        if missing and _is_a_part_of_the_engine_that_breaks(ctx, qualname):
            raise Skip(
                f"{missing}; {qualname}, a part of the engine, does not import without: {describe(error)}",
                "run the kit where the device is",
            ) from error
        raise ctx.fail(
            member,
            contract_says=f"{says} that imports on this machine.",
            platform_did=f"it gave {qualname!r}, which does not import: {describe(error)}",
            hint=_how_to_lead_there(member, qualname),
        ) from error
    if not isinstance(found, type):
        raise ctx.fail(
            member,
            contract_says=f"{says}, which leads to a class.",
            platform_did=f"it gave {qualname!r}, which is {kind_of(found)}",
            hint="Name the class itself, not a function, a module or an instance.",
        )
    return found


def _hidden(cls: type, name: str) -> bool:
    """Say whether a class sets a name to None that one of its bases has."""
    return any(name in vars(one) for one in cls.__mro__)


def _lacks(cls: type, names: Sequence[str]) -> str:
    """What a class does not have, as the end of a sentence."""
    return ", ".join(f"sets {one} to None" if _hidden(cls, one) else f"has no {one}" for one in names)


def surface(ctx: CheckContext, member: str, cls: type, picked: PickedBase) -> None:
    """Fail unless a picked class derives from what the engine expects and is whole.

    Raises:
        Violation: it derives from another base, lacks names that the engine uses, or is abstract.
    """
    where = locate(cls) or f"{cls.__module__}.{cls.__qualname__}"
    name = f"{cls.__module__}.{cls.__qualname__}"
    base = picked.base
    if base is not None and not _derives(cls, base):
        raise ctx.fail(
            member,
            contract_says=f"What `{member}` names derives from {base.__module__}.{base.__qualname__}.",
            platform_did=f"{name} derives from {', '.join(one.__name__ for one in cls.__mro__[1:])}",
            hint=f"Write `class {cls.__name__}({base.__name__})`, or name the right class.",
            location=where,
        )
    lacking = [one for one in picked.required if inspect.getattr_static(cls, one, None) is None]
    if lacking:
        raise ctx.fail(
            member,
            contract_says=f"The engine uses {', '.join(picked.required)} of what `{member}` names.",
            platform_did=f"{name} {_lacks(cls, lacking)}",
            hint=f"Define {', '.join(lacking)} in {cls.__name__}, or remove what sets it to None."
            if any(_hidden(cls, one) for one in lacking)
            else f"Define {', '.join(lacking)} in {cls.__name__}.",
            location=where,
        )
    still_abstract = sorted(getattr(cls, "__abstractmethods__", ()))
    if still_abstract and ctx.overridden(member):
        raise ctx.fail(
            member,
            contract_says=f"What `{member}` names can be instantiated.",
            platform_did=f"{name} leaves abstract: {', '.join(still_abstract)}",
            hint=f"Define {', '.join(still_abstract)} in {cls.__name__}.",
            location=where,
        )


def _derives(cls: type, base: type) -> bool:
    if getattr(base, "_is_protocol", False):
        return True  # a Protocol is judged by its names
    return issubclass(cls, base)


def _engine(ctx: CheckContext) -> str:
    """The name of the engine's package."""
    return ctx.adapter.base_class().__module__.partition(".")[0]


def _is_missing_module(error: BaseException, engine: str) -> bool:
    """Say whether a module is missing that is no part of the engine: installing something could help."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ModuleNotFoundError):
            return (seen.name or "").partition(".")[0] != engine
        if isinstance(seen, ImportError) and type(seen).__name__ == "MissingModule":
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _is_a_part_of_the_engine_that_breaks(ctx: CheckContext, qualname: str) -> bool:
    """Say whether a name leads to a module that the engine ships and whose own import raises."""
    module = qualname.rpartition(".")[0]
    if module.partition(".")[0] != _engine(ctx):
        return False
    try:
        there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        there = not module.startswith(error.name or "")
    except Exception:  # a package around it is there and does not import
        there = True
    return there and module not in sys.modules


def _missing_requirements(ctx: CheckContext) -> Iterator[str]:
    """Requirements of the distribution that ships the platform which are not installed here."""
    from packaging.requirements import InvalidRequirement, Requirement

    package = ctx.platform_cls.__module__.partition(".")[0]
    for distribution in importlib.metadata.packages_distributions().get(package, ()):
        for text in importlib.metadata.requires(distribution) or ():
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            extra_only = requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
            if extra_only:
                continue
            try:
                importlib.metadata.version(requirement.name)
            except importlib.metadata.PackageNotFoundError:
                yield requirement.name


def _how_to_lead_there(member: str, qualname: str) -> str:
    module = qualname.rpartition(".")[0]
    if not module:
        return f'Give the whole name in `{member}`: "package.module.{qualname or "ClassName"}".'
    return f"Correct the name in `{member}`, or make `python -c 'import {module}'` work."
