"""The adapters of the kit, one per engine, and which of them a class belongs to."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from conformance.engines.base import Adapter
from conformance.problems import UsageProblem, did_you_mean
from conformance.target import Target

ENGINES: Final = {
    "native": "conformance.engines.native",
    "vllm": "conformance.engines.vllm",
}
"""The module of each adapter; each has a function `adapter()`."""

_ROOTS: Final = {
    "platform_abc": "native",
    "platforms": "native",
    "reference_model": "native",
    "reference_engine": "native",
    "vllm": "vllm",
}
"""Which engine a base class comes from, by its top-level package."""
_DEPTH: Final = 8


def adapter(name: str) -> Adapter:
    """Return the adapter of an engine; imports no engine.

    Raises:
        UsageProblem: there is no such adapter.
    """
    require_known(name)
    return cast("Adapter", importlib.import_module(ENGINES[name]).adapter())


def require_known(name: str) -> None:
    """Refuse a name that is no engine's.

    Raises:
        UsageProblem: it is none of `ENGINES`.
    """
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise UsageProblem(
            f"--conformance-engine {name!r} is unknown{did_you_mean(name, ENGINES)} known: {known}"
        )


def choose(cls: type, name: str | None) -> Adapter:
    """Return the adapter whose engine has a base class of `cls`.

    Args:
        cls: a class.
        name: the engine that the user named, or None.

    Raises:
        UsageProblem: `cls` is no platform class of it.
    """
    candidates = [name] if name else list(ENGINES)
    for one in candidates:
        found = adapter(one)
        if found.accepts(cls):
            return found
    bases = ", ".join(f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__[1:]) or "nothing"
    engine = f" of engine {name}" if name else ""
    raise UsageProblem(
        f"{cls.__module__}.{cls.__qualname__} is not a platform class{engine}: it derives from {bases}; "
        "derive from platform_abc.platform.Platform or from the engine's own Platform"
    )


def guess(target: Target) -> str | None:
    """Guess the engine of a class from source, importing nothing; None if the source does not say.

    Follows the base classes through import statements, from file to file. The guess only decides
    which engine is imported before the platform is; the class itself decides afterwards.
    """
    if target.parts[0] in _ROOTS:
        return _ROOTS[target.parts[0]]
    for split in range(len(target.parts), 0, -1):
        name = ".".join(target.parts[:split])
        rest = (*target.parts[split:], *target.attributes)
        file = _source(name)
        if file is not None:
            return _follow(name, file, rest[0] if rest else "", _DEPTH)
    return None


def _follow(module: str, file: Path, name: str, depth: int) -> str | None:
    """Follow a name in a module to the package that its base comes from."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    imported = _imports(tree, package)
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    waiting: list[str] = [name]
    seen: set[str] = set()
    while waiting:
        one = waiting.pop(0)
        if one in seen:
            continue
        seen.add(one)
        if one in classes:
            waiting += [ast.unparse(base) for base in classes[one].bases]
            continue
        head, _, tail = one.partition(".")
        if head not in imported:
            continue
        where = ".".join(filter(None, (imported[head], tail)))
        root = where.partition(".")[0]
        if root in _ROOTS:
            return _ROOTS[root]
        source_module, _, attribute = where.rpartition(".")
        source = _source(source_module)
        found = _follow(source_module, source, attribute, depth - 1) if source and depth else None
        if found:
            return found
    return None


def _imports(tree: ast.Module, package: str) -> dict[str, str]:
    """What each imported name of a module stands for, as a dotted name."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.partition(".")[0]
                found[alias.asname or head] = alias.name if alias.asname else head
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(filter(None, (*above, node.module)))
            for alias in node.names:
                found[alias.asname or alias.name] = f"{base}.{alias.name}"
    return found


def _source(module: str) -> Path | None:
    """The source file of a module, found without importing its parents; None if there is none."""
    path: Sequence[str] | None = None
    spec: importlib.machinery.ModuleSpec | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        if count > 1 and path is None:
            return None
        spec = _find(".".join(parts[:count]), path)
        if spec is None:
            return None
        locations = spec.submodule_search_locations
        path = list(locations) if locations is not None else None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _find(name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # noqa: S112  a finder of somebody else; the guess may fail, the run may not
            continue
        if spec is not None:
            return spec
    return None
