"""Stand-ins for modules that this machine lacks: `--conformance-stub NAME`.

A stand-in is an empty module that has every name and every submodule. It lets a platform's module be
imported where a compiled library is missing. It goes in place after the engine has resolved its own
platform, since detectors would take a stand-in for the device, and it never replaces a module that imports.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import keyword
import os
import sys
from collections.abc import Generator, Iterable, Sequence
from types import ModuleType
from typing import Any, Final

import attrs

from conformance.engines import adapter
from conformance.problems import UsageProblem
from conformance.standins import StandIn
from conformance.target import Target, exists, parse

VARIABLE: Final = "CONFORMANCE_STUBS"
"""Tells fresh interpreters what to put in place, as JSON: `Stubs` without what was not needed."""

_PACKAGES: Final = frozenset(
    {
        "conformance",
        "platform_abc",
        "platforms",
        "reference_model",
        "reference_engine",
        *sys.stdlib_module_names,
    }
)
_WHOLE: Final = ("torch", "vllm")
"""Parts of these may be missing, they themselves may not."""


@attrs.frozen
class Stubs:
    """What came of the names that the user gave.

    Args:
        absent: stand-ins for modules that nobody finds.
        broken: stand-ins for modules that are found and do not import; theirs come before the real ones.
        needless: names of modules that import, and so have no stand-in.
    """

    absent: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    needless: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What stands in for something."""
        return (*self.absent, *self.broken)


def read(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Check the names that a user gave, and leave out those given twice.

    Args:
        names: as given.
        where: how to call the place, for messages.

    Raises:
        UsageProblem: one is no dotted name, or the name of a module that the kit itself needs.
    """
    wanted: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        if not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
            more = "; repeat the option for each" if "," in name else ""
            raise UsageProblem(f"{where} {name!r} is no dotted name of a module, like amdsmi{more}")
        if parts[0] in _PACKAGES or name in _WHOLE:
            raise UsageProblem(
                f"{where} {name!r} is part of Python, the kit or an engine, which nothing can stand in for; "
                "name the vendor's module that is missing here"
            )
        wanted[name] = None
    return tuple(wanted)


def require_other(names: Iterable[str], platform: str) -> None:
    """Refuse a stand-in for the module that the platform itself is in, or for a package around it.

    Raises:
        UsageProblem: there is one.
    """
    for name in names:
        parts = tuple(name.split("."))
        if parse(platform).parts[: len(parts)] == parts:
            raise UsageProblem(
                f"--conformance-stub {name!r} would stand in for the platform {platform} itself; "
                "name the module that its import lacks"
            )


def put(names: Sequence[str], target: Target | None = None) -> Stubs:
    """Put stand-ins in place, each where its module does not really import.

    Args:
        names: what the user gave.
        target: the platform. Modules of its own package are not tried, since that would import it.
    """
    absent: list[str] = []
    broken: list[str] = []
    needless: list[str] = []
    for name in names:
        if (target is not None and name.partition(".")[0] == target.parts[0]) or not exists(name):
            absent.append(name)
        elif _imports(name):
            needless.append(name)
        else:
            broken.append(name)
    made = Stubs(tuple(absent), tuple(broken), tuple(needless))
    _install(made)
    return made


def settled(stubs: Stubs) -> Stubs:
    """Say again, after the platform's import, which names no stand-in was needed for."""
    real = [name for name in stubs.absent if name in sys.modules and not is_stub(sys.modules[name])]
    absent = tuple(name for name in stubs.absent if name not in real)
    return attrs.evolve(stubs, absent=absent, needless=(*stubs.needless, *real))


def in_place() -> tuple[str, ...]:
    """The names that stand-ins are in place for in this process."""
    return tuple(name for one in sys.meta_path if isinstance(one, _Finder) for name in one.names)


def is_stub(module: object) -> bool:
    """Say whether a module is one of the stand-ins."""
    return isinstance(module, _Stub)


def variables(stubs: Stubs) -> dict[str, str]:
    """What the environment of fresh interpreters has to say; empty without stand-ins."""
    return {VARIABLE: json.dumps([stubs.absent, stubs.broken])} if stubs.names else {}


def apply(engine: str) -> tuple[str, ...]:
    """In a fresh or spawned process: put the run's stand-ins in place; call it before the platform's import.

    With stand-ins the engine is first given a neutral platform, so that no detector sees one. Without,
    this does nothing.

    Args:
        engine: the adapter's name.

    Returns:
        The names that stand in for something.
    """
    told = os.environ.get(VARIABLE)
    if not told:
        return ()
    absent, broken = json.loads(told)
    stubs = Stubs(tuple(absent), tuple(broken))
    if not in_place():
        adapter(engine).settle()
        _install(stubs)
    return stubs.names


def remove() -> None:
    """Take every stand-in away."""
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Finder)]
    for name, module in list(sys.modules.items()):
        if is_stub(module):
            del sys.modules[name]


@contextlib.contextmanager
def lifted() -> Generator[None]:
    """Take every stand-in away for a while."""
    finders, modules = list(sys.meta_path), dict(sys.modules)
    remove()
    try:
        yield
    finally:
        sys.meta_path[:] = finders
        sys.modules.update({name: module for name, module in modules.items() if is_stub(module)})


def said(stubs: Stubs) -> list[str]:
    """Lines for the user."""
    lines = [f"stand-ins are in place for {', '.join(stubs.names)}"] if stubs.names else []
    lines += [f"--conformance-stub {name} was not needed: it imports" for name in stubs.needless]
    return lines


def _imports(name: str) -> bool:
    """Say whether a module really imports; one that does not leaves nothing behind."""
    before = set(sys.modules)
    try:
        importlib.import_module(name)
    except (Exception, SystemExit):
        for one in set(sys.modules) - before:
            if one == name or one.startswith(f"{name}."):
                del sys.modules[one]
        return False
    return True


def _install(stubs: Stubs) -> None:
    if stubs.broken:
        sys.meta_path.insert(0, _Finder(stubs.broken))
    if stubs.absent:
        sys.meta_path.append(_Finder(stubs.absent))
    importlib.invalidate_caches()


class _Stub(ModuleType):
    """A module that has every name: each is a class of `conformance.standins`."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "0"
        if name.startswith("__"):
            raise AttributeError(f"the stand-in for module {self.__name__!r} has no attribute {name!r}")
        made = StandIn.make(name, self.__name__)
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for each of its names, for what lies above them, and for whatever lies below.

    Args:
        names: dotted names of modules.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module by its name."""
        if any(f"{fullname}.".startswith(f"{one}.") or one.startswith(f"{fullname}.") for one in self.names):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make the module."""
        return _Stub(spec.name, "A stand-in of the conformance kit for a module that is missing here.")

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""
