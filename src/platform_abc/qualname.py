"""From a dotted name to the object it names, with an error for each way in which that can fail."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from platform_abc.errors import FailingImport, MalformedQualname, MissingModule, MissingName, QualnameError
from platform_abc.foreign import describe, shown

_FORM = 'a dotted name "package.module.Name"'


def resolve_obj_by_qualname(qualname: str) -> object:
    """Import the object that a dotted name names.

    The longest importable prefix is the module; the rest are attributes, so nested classes
    (`pkg.mod.Outer.Inner`) and aliases in a package resolve too.

    Args:
        qualname: for example `"platforms.cpu.CpuPlatform"`.

    Returns:
        The object; its kind is the caller's to check.

    Raises:
        MalformedQualname: not a string of two or more identifiers joined by dots.
        MissingModule: there is no such module.
        MissingName: the module has no such name.
        FailingImport: the module is there and its import raises; the cause is chained.
    """
    parts = _split(qualname)
    module_name = _import_longest(qualname, parts)
    target: object = sys.modules[module_name]
    path = module_name
    for part in parts[module_name.count(".") + 1 :]:
        try:
            target = getattr(target, part)
        except AttributeError as error:
            raise MissingName(_missing_name(qualname, path, part, target)) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module's own `__getattr__` may do anything
            raise FailingImport(
                f"{qualname!r}: reading {part!r} of {path} raised {describe(error)}"
            ) from error
        path = f"{path}.{part}"
    return target


def _split(qualname: object) -> list[str]:
    if not isinstance(qualname, str):
        raise MalformedQualname(f"expected {_FORM}, got {shown(qualname)} of type {type(qualname).__name__}")
    parts = qualname.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        colon = " (write a dot, not a colon)" if ":" in qualname else ""
        raise MalformedQualname(f"expected {_FORM}, got {qualname!r}{colon}")
    return parts


def _import_longest(qualname: str, parts: list[str]) -> str:
    """Import the module part and return its name; the last part is never a module of its own."""
    imported = ""
    for end in range(1, len(parts)):
        name = ".".join(parts[:end])
        if imported and not _is_package(sys.modules[imported]):
            break  # a plain module has no submodules: what follows are its attributes
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise _failing(qualname, name, error) from error
            if imported and _read(sys.modules[imported], parts[end - 1]) is not None:
                break  # a class or object of the package, not a submodule
            hint = f"{imported} has no module {parts[end - 1]!r}" if imported else f"no package {name!r} here"
            raise MissingModule(
                f"{qualname!r}: {hint}; check the spelling or install it", name=name
            ) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: a module that exits cannot be imported
            raise _failing(qualname, name, error) from error
        if name not in sys.modules:
            raise FailingImport(f"{qualname!r}: importing {name} removed it from sys.modules again")
        imported = name
    return imported


def _failing(qualname: str, module: str, error: BaseException) -> QualnameError:
    return FailingImport(f"{qualname!r}: importing {module} raised {describe(error)}", name=module)


def _missing_name(qualname: str, path: str, part: str, target: object) -> str:
    import difflib

    names = _public_names(target)
    if isinstance(target, ModuleType):  # what it only imports from elsewhere is hardly what was meant
        names = [name for name in names if _belongs(vars(target).get(name), target.__name__)]
    close = difflib.get_close_matches(part, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    if _read(_read(target, "__spec__"), "_initializing"):
        hint = "; it is still being imported, so its names are not there yet (a circular import)"
    return f"{qualname!r}: {path} has no name {part!r}{hint}"


def _belongs(value: object, module: str) -> bool:
    """Say whether a value was defined in a module, or in one below it; most plain values do not tell."""
    home = _read(value, "__module__")
    return not isinstance(home, str) or f"{home}.".startswith(f"{module}.")


def _is_package(module: object) -> bool:
    """Say whether a module may have submodules, without asking a `__getattr__` that answers anything."""
    if isinstance(module, ModuleType):
        return "__path__" in vars(module)
    return _read(module, "__path__") is not None


def _public_names(target: object) -> list[str]:
    """Return the public names of an object, none if its own `__dir__` does not tell."""
    try:
        names: list[object] = list(dir(target))
    except Exception:  # noqa: BLE001  (a hostile `__dir__`; the names only serve a hint)
        return []
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]


def _read(target: object, name: str) -> object:
    """Return an attribute, `None` if reading it raises: a module's own `__getattr__` may do anything."""
    try:
        return getattr(target, name, None)
    except Exception:  # noqa: BLE001  (it then counts as absent; reading what was asked for reports it)
        return None
