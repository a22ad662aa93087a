"""The `--platform` argument: `package:Class`, `package.module.Class` or `package.module:Outer.Class`.

`parse` reads the text and imports nothing. `load` runs in a child: it imports module after module, so
that a module that does not exist (a mistake of the user) is told from one whose import fails (a fault
of the platform).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import keyword
import os
import pkgutil
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import attrs

from conformance.problems import UsageProblem, did_you_mean, listing

_FORM = "write package.module:Class or package.module.Class"


@attrs.frozen
class Target:
    """A platform's name, taken apart.

    Args:
        text: as the user wrote it.
        parts: the dotted parts before the colon; without a colon, all of them.
        attributes: the dotted parts after the colon; empty without a colon.
    """

    text: str
    parts: tuple[str, ...]
    attributes: tuple[str, ...] = ()


class FailedImport(Exception):
    """A module was found and its import raised; the cause is chained.

    Args:
        module: its name.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        super().__init__(module)


class Tampered(Exception):
    """A module's import replaced what every other module of its process lives on; put back meanwhile.

    Args:
        module: its name.
        names: what it replaced.
    """

    def __init__(self, module: str, names: Iterable[str]) -> None:
        self.module = module
        self.names = tuple(names)
        super().__init__(module, self.names)

    def __str__(self) -> str:
        return (
            f"importing {self.module} replaced {listing(self.names)}, which every module of the process uses"
        )


def parse(text: str) -> Target:
    """Take the name of a platform class apart.

    Raises:
        UsageProblem: it is malformed.
    """
    name = text.strip()
    if not name:
        raise UsageProblem(f"--platform is empty; {_FORM}")
    if name.endswith(".py") or ".py:" in name or "/" in name or os.sep in name:
        raise UsageProblem(f"--platform {text!r} is a file, not a dotted name; {_FORM}")
    module, colon, attributes = name.partition(":")
    parts = tuple(module.split("."))
    after = tuple(attributes.split(".")) if colon else ()
    bad = [part for part in (*parts, *after) if not part.isidentifier() or keyword.iskeyword(part)]
    if bad:
        what = repr(bad[0]) if bad[0] else "an empty part"
        raise UsageProblem(f"--platform {text!r} is malformed ({what} is no Python name); {_FORM}")
    if not colon and len(parts) == 1:
        raise UsageProblem(
            f"--platform {text!r} names no class; {_FORM}, for example {name}:{name.title()}Platform"
        )
    return Target(text, parts, after)


def load(target: Target) -> object:
    """Import what a target names; in a child only.

    Raises:
        UsageProblem: there is no such module, or no such name in it.
        FailedImport: a module was found and its import raised.
    """
    must_import = target.parts if target.attributes else target.parts[:-1]
    module, found = _walk(target, must_import)
    rest = (*must_import[found:], *(target.attributes or target.parts[-1:]))
    here: object = module
    path = module.__name__
    for name in rest:
        try:
            here = getattr(here, name)
        except AttributeError as error:
            if isinstance(here, ModuleType) and not target.attributes and exists(f"{path}.{name}"):
                return _walk(target, target.parts)[0]
            raise UsageProblem(_no_name(target, here, path, name)) from error
        except BaseException as error:
            raise FailedImport(f"{path}.{name}") from error
        path = f"{path}.{name}"
    return here


def require_top(target: Target) -> None:
    """Refuse a target whose top-level package does not exist; imports nothing.

    Raises:
        UsageProblem: there is no such package.
    """
    if not exists(target.parts[0]):
        raise UsageProblem(_no_module(target, None, target.parts[0]))


def must_be_class(target: Target, thing: object) -> type:
    """Return `thing` as the class that it has to be.

    Raises:
        UsageProblem: it is something else.
    """
    if isinstance(thing, type):
        return thing
    if isinstance(thing, ModuleType):
        classes = _classes(thing)
        hint = f", for example {thing.__name__}:{classes[0]}" if classes else ""
        raise UsageProblem(f"--platform {target.text!r} is a module; name a class in it{hint}")
    what = f"an instance of {type(thing).__qualname__}" if not callable(thing) else "a function"
    raise UsageProblem(f"--platform {target.text!r} is {what}, not a class; name the platform class itself")


def _walk(target: Target, parts: tuple[str, ...]) -> tuple[ModuleType, int]:
    """Import module after module; return the deepest and how many parts it took.

    Without a colon the later parts may also be classes, so a part that is no module ends the walk.
    """
    module: ModuleType | None = None
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        if not exists(name):
            if module is None or target.attributes:
                raise UsageProblem(_no_module(target, module, name))
            if not hasattr(module, parts[count - 1]):
                raise UsageProblem(_no_module(target, module, name))
            return module, count - 1
        try:
            module = importlib.import_module(name)
        except BaseException as error:
            raise FailedImport(name) from error
        if sys.modules.get(name) is None:  # it has put None in its own place
            raise FailedImport(name) from ImportError(f"{name} is None in sys.modules after its import")
    assert module is not None  # the walk has at least one part
    return module, len(parts)


def exists(name: str) -> bool:
    """Say whether the import system finds a module whose parents are imported."""
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, AttributeError, ValueError):
        return False


def _no_module(target: Target, parent: ModuleType | None, name: str) -> str:
    last = name.rpartition(".")[2]
    if parent is None:
        near = did_you_mean(last, {one.name for one in pkgutil.iter_modules()})
        here = f"src/{last}" if Path("src", last).is_dir() else ""
        hint = f"; ./{here} exists: install it first (pip install -e .)" if here else near
        hint = hint or "; is its package installed in this environment?"
    else:
        inside = [one.name for one in pkgutil.iter_modules(getattr(parent, "__path__", []))]
        hint = did_you_mean(last, inside) or (f"; it has {listing(inside)}" if inside else "")
    return f"--platform {target.text!r}: there is no module {name!r}{hint}"


def _no_name(target: Target, here: object, path: str, name: str) -> str:
    classes = _classes(here)
    hint = did_you_mean(name, classes) or (f"; it has {listing(classes)}" if classes else "")
    return f"--platform {target.text!r}: {path!r} has no name {name!r}{hint}"


def _classes(here: object) -> list[str]:
    """The public classes of a module or class: its own first, those that look like platforms before others."""
    home = getattr(here, "__name__", "")
    names = {
        name: one for name, one in vars(here).items() if inspect.isclass(one) and not name.startswith("_")
    }

    def rank(name: str) -> tuple[bool, bool, str]:
        return names[name].__module__ != home, not name.endswith("Platform"), name

    return sorted(names, key=rank)
