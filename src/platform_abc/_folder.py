"""The current folder: `python -m` puts it first on the import path, where files of a user hide modules.

Imports nothing that such a file could hide, so that it can act before anything else is imported.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def without_implied_folder(path: list[str]) -> list[str]:
    """Return an import path without the current folder, if Python itself has put it first.

    It stays where the variable `PYTHONPATH` names it, and where it is the folder that our packages are
    imported from.
    """
    if not path or sys.flags.safe_path:
        return list(path)
    try:
        here = os.getcwd()
    except OSError:  # the folder is gone, so nothing can be imported from it
        here = ""
    explicit = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    implied = path[0] in ("", here) and not (path[0] and path[0] in explicit)
    return list(path[1:] if implied and os.path.realpath(here) != _HOME else path)


def hiding_files() -> list[str]:
    """List what in the current folder has the name of a module that we have imported, or of a package of ours.

    A program that is started in that folder would import it instead.
    """
    from pathlib import Path

    try:
        return sorted(str(each) for each in Path.cwd().iterdir() if _hides(each))
    except OSError:
        return []


def _hides(file: Path) -> bool:
    is_package = file.is_dir()
    code = file / "__init__.py" if is_package else file
    if code.suffix != ".py" or not code.is_file():
        return False
    name = file.name if is_package else file.stem
    if name == "platforms":
        hidden: object = os.path.join(_HOME, "platforms", "__init__.py")
    else:
        module = sys.modules.get(name)
        preloaded = getattr(getattr(module, "__spec__", None), "origin", "") == "frozen"
        hidden = None if preloaded or name == "__main__" else getattr(module, "__file__", None)
    return isinstance(hidden, str) and os.path.realpath(hidden) != os.path.realpath(code)
