"""Type checkers accept the right uses in `cases/` and refuse the wrong ones, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.typing import checkers

CASES: Final = sorted((Path(__file__).parent / "cases").glob("*.py"))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
]


def test_the_cases_are_there() -> None:
    """Every file of cases marks at least one wrong use, so that none is checked for nothing."""
    assert len(CASES) >= 6
    for path in CASES:
        for checker in ("mypy", "pyright"):
            assert checkers.expected(path, checker), path


def test_mypy_agrees_with_the_marks(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    """mypy strict reports an error at every marked line and nowhere else."""
    # Without the plugin that keeps it, there is no such attribute.
    kept = getattr(pytestconfig, "cache", None)
    cache = kept.mkdir("mypy") if kept else tmp_path_factory.mktemp("mypy")
    assert checkers.differences(checkers.run_mypy(CASES, cache), "mypy") == []


def test_pyright_agrees_with_the_marks() -> None:
    """Pyright strict reports an error at every marked line and nowhere else."""
    assert checkers.differences(checkers.run_pyright(CASES), "pyright") == []


def test_a_wrong_mark_is_found(tmp_path: Path) -> None:
    """The comparison itself tells a missing error from an unexpected one."""
    path = tmp_path / "case.py"
    path.write_text("right()\nwrong()  # E: mp\nonly_mypy()  # E: m\n", encoding="utf-8")
    assert checkers.differences({path: {1: "boom", 3: "boom"}}, "pyright") == [
        "case.py:2: pyright finds no error",
        "case.py:1: pyright finds an error: boom",
        "case.py:3: pyright finds an error: boom",
    ]
    assert checkers.differences({path: {2: "boom", 3: "boom"}}, "mypy") == []
