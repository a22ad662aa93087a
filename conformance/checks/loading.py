"""Before any member is asked: the class imports, is whole, stands for a device, and an instance exists."""

from __future__ import annotations

import inspect
from typing import Final

from conformance.context import CheckContext, is_a, kind_of
from conformance.model import IMPORTABLE, INSTANTIABLE, Finding, Level, Violation
from conformance.registry import check

MANDATORY: Final = "members.mandatory"
SPECIFIED: Final = "platform.specified"
_ABSENT: Final = object()


@check(
    IMPORTABLE,
    group="resolution",
    level=Level.STATIC,
    why="An engine imports the platform's class by name in every process; if that fails, nothing runs.",
    hint="Make `python -c 'import <module>'` work in a fresh interpreter, without the device.",
)
def importable(ctx: CheckContext) -> None:
    """The platform's module imports in a fresh process, and the name leads to a class."""
    if not is_a(ctx.platform_cls, type):
        raise ctx.fail(
            "",
            contract_says="The platform is a class; the engine makes the instance.",
            platform_did=f"the name leads to {kind_of(ctx.platform_cls)}",
            hint="Give the name of the class, not of an instance or a function.",
        )


@check(
    SPECIFIED,
    group="identity",
    level=Level.STATIC,
    needs=(IMPORTABLE,),
    why="`UNSPECIFIED` is what an engine uses when it found no device; it stops before the model loads.",
    hint="Set `_enum` to the kind of your device; outside the engine's tree that is `PlatformEnum.OOT`.",
)
def specified(ctx: CheckContext) -> None:
    """The class stands for a device: its kind is not the placeholder for "none found"."""
    kind = ctx.raw("_enum")
    if kind is ctx.adapter.platform_enum()["UNSPECIFIED"]:
        raise ctx.fail(
            "_enum",
            contract_says="A platform says in `_enum` which kind of device it is.",
            platform_did="`_enum` is PlatformEnum.UNSPECIFIED, the placeholder for 'no device was found'",
            hint="Write `_enum = PlatformEnum.OOT` in the class, or give the kit the class that serves your device.",
        )


@check(
    MANDATORY,
    group="identity",
    level=Level.STATIC,
    needs=(SPECIFIED,),
    why="An engine reads these members in every run; without one it stops with an error far from here.",
    hint="Define every mandatory member in the class body.",
)
def mandatory(ctx: CheckContext) -> None:
    """Every member without a default is set, and no other member of the base is missing."""
    abstract: frozenset[str] = getattr(ctx.platform_cls, "__abstractmethods__", frozenset[str]())
    findings: list[Finding] = []
    for name, member in ctx.adapter.members().items():
        value = inspect.getattr_static(ctx.platform_cls, name, _ABSENT)
        is_open = name in abstract or getattr(value, "__isabstractmethod__", False) is True
        if value is not _ABSENT and not is_open:
            continue
        callable_kind = member.kind in {"method", "classmethod", "staticmethod"}
        example = f"`@classmethod def {name}(cls, …)`" if callable_kind else f"`{name} = …` in the class body"
        findings.append(
            ctx.finding(
                name,
                contract_says=f"`{name}` has no default that could serve: every platform defines it.",
                platform_did=f"{ctx.platform_cls.__name__} does not define `{name}`",
                hint=f"Write {example}.",
                location=ctx.locate(),
            )
        )
    for name in sorted(set(abstract) - set(ctx.adapter.members())):
        findings.append(
            ctx.finding(
                name,
                contract_says="A platform leaves no abstract member open, its own bases' included.",
                platform_did=f"`{name}` is abstract in {ctx.platform_cls.__name__}",
                hint=f"Define `{name}`, or remove the mark `abstractmethod`.",
            )
        )
    if findings:
        raise Violation(*findings)


@check(
    INSTANTIABLE,
    group="resolution",
    level=Level.STATIC,
    needs=(MANDATORY,),
    why="The engine makes one instance without arguments when it resolves the platform.",
    hint="Let the class be made without arguments and without the device.",
)
def instantiable(ctx: CheckContext) -> None:
    """`Platform()` gives an instance."""
    try:
        made = ctx.platform_cls()
    except Exception as error:
        raise ctx.raised(
            "__init__",
            error,
            contract_says="The class is instantiated without arguments, as the engine does.",
            hint="Remove the parameters and the work from `__init__`; a platform keeps no state.",
        ) from error
    if not isinstance(made, ctx.platform_cls):
        raise ctx.fail(
            "__new__",
            contract_says="Making an instance of the class gives an instance of the class.",
            platform_did=f"{ctx.platform_cls.__name__}() gave {kind_of(made)}",
            hint="Remove `__new__`; a detector, not the class, decides which platform serves.",
        )
