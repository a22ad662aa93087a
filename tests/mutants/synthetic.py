"""A package whose modules have no files: each is written when it is imported."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import linecache
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType

import attrs


@attrs.frozen
class Synthetic(importlib.abc.MetaPathFinder):
    """Finds the modules of one package.

    Args:
        package: its dotted name.
        folder: where its modules would have their files.
        write: returns the source of a module by its last name; raises KeyError for an unknown one.
    """

    package: str
    folder: Path
    write: Callable[[str], str]

    def install(self) -> None:
        """Let imports of the package's modules come here."""
        if not any(isinstance(one, Synthetic) and one.package == self.package for one in sys.meta_path):
            sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Say where a module comes from; None for a module of another package or an unknown name."""
        package, _, name = fullname.rpartition(".")
        if package != self.package:
            return None
        try:
            source = self.write(name)
        except KeyError:
            return None
        file = str(self.folder / f"{name}.py")
        # The kit reads lines of a platform's file for its texts.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(source, file), origin=file)
        spec.has_location = True
        return spec

    def platform(self, name: str) -> type:
        """Return the class of a module that is called like the class.

        Raises:
            AttributeError: there is no such module.
        """
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        try:
            module = importlib.import_module(f"{self.package}.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(f"{self.package} has no mutant {name!r}") from error
        found = getattr(module, name)
        assert isinstance(found, type)
        return found


@attrs.frozen
class _Loader(importlib.abc.InspectLoader):
    source: str
    file: str

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_filename(self, fullname: str) -> str:
        return self.file

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.file, "exec", dont_inherit=True)
