"""Which entry points are the platform's own: those of the distribution that ships its package.

Standard library only, so that interpreters which must stay bare can ask.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util


def home(module: str) -> str:
    """The outermost package of a module that belongs to one distribution: namespace packages are shared."""
    parts = module.split(".")
    for count in range(1, len(parts)):
        name = ".".join(parts[:count])
        try:
            spec = importlib.util.find_spec(name) if count == 1 else _beside(name)
        except (ImportError, ValueError, AttributeError):
            return parts[0]
        if spec is None or spec.origin is not None:
            return name
    return module


def leads_into(package: str, value: str) -> bool:
    """Say whether an entry point, `package.module:function`, lies in a package or is that module."""
    return f"{value.partition(':')[0].strip()}.".startswith(f"{package}.")


def ships(dist: importlib.metadata.Distribution | None, module: str) -> bool:
    """Say whether a distribution is the one that has a module: its files say so, its list of packages, or its name."""
    if dist is None:
        return False
    package = home(module)
    folders = {one.replace(".", "/") for one in (module, package)}
    for file in map(str, dist.files or ()):
        folder, _, name = file.rpartition("/")
        stem = name.partition(".")[0]  # also of a compiled module
        if (folder if stem == "__init__" else f"{folder}/{stem}".lstrip("/")) in folders:
            return True
    if package in (dist.read_text("top_level.txt") or "").split():
        return True
    name = (dist.name or "").replace("-", "_").replace(".", "_").lower()
    return bool(name) and name == module.partition(".")[0].lower()


def _beside(name: str) -> importlib.machinery.ModuleSpec | None:
    """A module's spec, found without importing its parents' code: they are namespaces."""
    parent = importlib.import_module(name.rpartition(".")[0])
    return importlib.machinery.PathFinder.find_spec(name, parent.__path__)
