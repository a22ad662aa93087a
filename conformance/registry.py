"""The registry of checks: the `check` decorator, and `all_checks` that loads every family."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from conformance.model import IMPORTABLE, INSTANTIABLE, Check, Level, Severity, Where

if TYPE_CHECKING:
    from conformance.context import CheckContext

CheckFunction = Callable[["CheckContext"], None]

GROUPS: Final = (
    "resolution",
    "identity",
    "config_hooks",
    "pickers",
    "kernel_hooks",
    "device",
    "capabilities",
)
_ID = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+")
_CHECKS: dict[str, Check] = {}


def check(
    id: str,  # noqa: A002  the field's name in every report
    *,
    group: str,
    why: str,
    hint: str,
    severity: Severity = "must",
    level: Level = Level.CONTRACT,
    since: str = "1.0",
    needs: tuple[str, ...] = (INSTANTIABLE,),
    asks: tuple[str, ...] = (),
    per_member: bool = False,
    where: Where = "fork",
    engines: tuple[str, ...] = (),
    timeout: float | None = None,
    after_plugins: bool | None = None,
) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as a check; see `conformance.model.Check` for the arguments.

    Unless it says otherwise, a check comes after the general plugins if it asks more than the class, and is
    not about fresh interpreters: those are about detectors and imports, which come before.

    Raises:
        ValueError: the id is malformed or taken, or the group is unknown.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"check id {id!r} is not dotted lower case like 'identity.device-name'")
    if group not in GROUPS:
        raise ValueError(f"check {id}: group {group!r} is none of {', '.join(GROUPS)}")

    def register(func: CheckFunction) -> CheckFunction:
        if id in _CHECKS and _CHECKS[id].func.__module__ != func.__module__:
            raise ValueError(f"check id {id!r} is taken by {_CHECKS[id].func.__module__}")
        _CHECKS[id] = Check(
            id=id,
            group=group,
            severity=severity,
            level=level,
            since=since,
            why=why,
            hint=hint,
            func=func,
            needs=needs if id != IMPORTABLE else (),
            asks=asks,
            per_member=per_member,
            where=where,
            engines=engines,
            timeout=timeout,
            after_plugins=_is_late(level, where) if after_plugins is None else after_plugins,
        )
        return func

    return register


def _is_late(level: Level, where: Where) -> bool:
    return level > Level.CONTRACT or (level is Level.CONTRACT and where == "fork")


def all_checks() -> Mapping[str, Check]:
    """Return every check by id, in order of level, then of group, then of module and definition.

    Of a level, those that wait for an interpreter of their own come last: it runs beside the others.

    Imports the modules of `conformance.checks`; none of them imports an engine or torch.

    Raises:
        ValueError: a check needs an id that no check has.
    """
    import conformance.checks as families

    for module in pkgutil.iter_modules(families.__path__, families.__name__ + "."):
        importlib.import_module(module.name)
    for one in _CHECKS.values():
        missing = [need for need in one.needs if need not in _CHECKS]
        if missing:
            raise ValueError(f"check {one.id} needs unknown checks: {', '.join(missing)}")
    # By module, not by registration alone: whoever imported a family earlier must not change the order.
    ordered = sorted(
        _CHECKS.values(),
        key=lambda c: (c.level, c.where == "fresh", GROUPS.index(c.group), c.func.__module__),
    )
    return MappingProxyType({one.id: one for one in ordered})
