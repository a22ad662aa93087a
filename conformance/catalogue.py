"""Which checks a run has: the kit's own, or those of one module in its tests."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

from conformance import registry
from conformance.model import IMPORTABLE, INSTANTIABLE, Check
from conformance.problems import UsageProblem


def checks_of(module: str | None) -> Mapping[str, Check]:
    """Return the checks of a run by id.

    Args:
        module: None for the kit's own; else a module whose checks, with the loading family, are
            all that there is. Only tests of the kit name one.

    Raises:
        UsageProblem: there is no such module.
        ValueError: needs form a circle, or one is unknown.
    """
    checks = registry.all_checks()
    if module is not None:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UsageProblem(f"--conformance-checks-from {module!r}: {error}") from error
        keep = {IMPORTABLE, INSTANTIABLE}
        every = registry.all_checks()
        while more := {need for name in keep for need in every[name].needs} - keep:
            keep |= more
        checks = MappingProxyType(
            {name: one for name, one in every.items() if name in keep or one.func.__module__ == module}
        )
    _refuse_circles(checks)
    return checks


def _refuse_circles(checks: Mapping[str, Check]) -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"checks need each other in a circle: {' -> '.join((*path, name))}")
        if name not in done:
            for need in checks[name].needs:
                visit(need, (*path, name))
            done.add(name)

    for one in checks:
        visit(one, ())
