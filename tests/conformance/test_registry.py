"""The registry: well-formed ids, known groups and needs, and one function for each id."""

from __future__ import annotations

import functools
import re
import subprocess
import sys

import pytest

from conformance.model import IMPORTABLE, INSTANTIABLE, Level
from conformance.registry import all_checks, check


@pytest.mark.parametrize("bad", ["Config.Plain", "plain", "config.", "config plain.x"])
def test_a_malformed_id_is_refused(bad: str) -> None:
    """An id is dotted lower case, for it stands in configuration files for ever."""
    with pytest.raises(ValueError, match="dotted lower case"):
        check(bad, group="identity", why="w", hint="h")


def test_an_unknown_group_is_refused() -> None:
    """A check belongs to a group of the contract."""
    with pytest.raises(ValueError, match="is none of"):
        check("some.check", group="somewhere", why="w", hint="h")


def test_a_taken_id_is_refused() -> None:
    """Two families cannot have one id."""
    all_checks()
    with pytest.raises(ValueError, match=r"taken by conformance\.checks\.config_hooks"):
        check("config.plain", group="identity", why="w", hint="h")(lambda ctx: None)


def test_texts_are_sentences() -> None:
    """Why and hint of each check are one sentence or two, and its rule stands in its docstring."""
    for one in all_checks().values():
        assert re.fullmatch(r"[A-Z`].*\.", one.why, re.DOTALL), one.id
        assert re.fullmatch(r"[A-Z`].*\.", one.hint, re.DOTALL), one.id
        assert one.func.__doc__, one.id


def test_everything_rests_on_the_import() -> None:
    """By its needs, every check comes to the import, and every answer to an instance.

    What is observed of the import alone, in an interpreter of its own, needs no instance.
    """
    checks = all_checks()

    @functools.cache
    def below(name: str) -> set[str]:
        return {name}.union(*(below(need) for need in checks[name].needs))

    for name, one in checks.items():
        assert IMPORTABLE in below(name)
        of_the_import = one.where == "fresh" and one.needs == (IMPORTABLE,)
        if one.level > Level.STATIC and one.group != "resolution" and not of_the_import:
            assert INSTANTIABLE in below(name), name


def test_cheap_checks_come_first() -> None:
    """The order of the registry is that of the levels."""
    levels = [one.level for one in all_checks().values()]
    assert levels == sorted(levels)


def test_the_order_does_not_depend_on_who_imported_first() -> None:
    """A family that was imported earlier, by a test or by another family, stands where it always does."""
    code = (
        "import importlib, pkgutil, conformance.checks as families; "
        "names = [module.name for module in pkgutil.iter_modules(families.__path__, families.__name__ + '.')]; "
        "[importlib.import_module(name) for name in reversed(names)]; "
        "from conformance.registry import all_checks; print(*all_checks())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == list(all_checks())


def test_loading_the_checks_imports_neither_torch_nor_an_engine() -> None:
    """The process that asks, pytest or the command line, stays light."""
    code = (
        "import sys; from conformance.registry import all_checks; all_checks(); "
        "print([name for name in ('torch', 'vllm', 'platforms', 'reference_engine') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
