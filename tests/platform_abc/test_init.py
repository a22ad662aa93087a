"""`platform_abc` itself: what it exports, and what importing it loads."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import platform_abc


def test_every_exported_name_can_be_read() -> None:
    """Each name of `__all__` is there, and is the same object as in its own module."""
    for name in platform_abc.__all__:
        home = importlib.import_module(f"platform_abc.{platform_abc._HOME_OF[name]}")
        assert getattr(platform_abc, name) is getattr(home, name)


def test_checkers_and_python_see_the_same_names() -> None:
    """What the lazy table offers is what the imports for type checkers and `__all__` say."""
    tree = ast.parse(Path(str(platform_abc.__file__)).read_text(encoding="utf-8"))
    for_checkers = {
        (alias.name, str(node.module).removeprefix("platform_abc."))
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert for_checkers == set(platform_abc._HOME_OF.items())
    assert platform_abc.__all__ == sorted(platform_abc._HOME_OF)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    """A misspelt name is refused as Python does it, so that hasattr and from-import work."""
    with pytest.raises(AttributeError, match="'platform_abc' has no attribute 'Platfrom'"):
        _ = platform_abc.Platfrom  # type: ignore[attr-defined]
    assert not hasattr(platform_abc, "__wrapped__")


def test_dir_lists_names_that_were_not_read_yet() -> None:
    """Completion in a shell offers every public name."""
    assert set(platform_abc.__all__) <= set(dir(platform_abc))


def test_reading_every_name_imports_no_torch() -> None:
    """Neither the import nor any exported name loads torch."""
    code = (
        "import sys, platform_abc\n"
        "for name in platform_abc.__all__: getattr(platform_abc, name)\n"
        "raise SystemExit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False, timeout=60).returncode == 0
