"""Facts about the size of the engine, which is there to be read."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from types import ModuleType

import pytest

import reference_engine
import reference_model

_WITHOUT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def lines_of_code(text: str) -> int:
    """Count the lines that hold code; docstrings, comments and empty lines are for the reader."""
    described = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    found = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in (*_WITHOUT_CODE, tokenize.ENDMARKER)
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(found - described)


def test_only_code_is_counted() -> None:
    """Neither what explains it nor what separates it."""
    assert lines_of_code('"""Says\n\nmuch."""\n\n# why\nx = (\n    1,\n)\n"""Of x."""\n') == 3


@pytest.mark.parametrize(("package", "most"), [(reference_engine, 2500), (reference_model, 1600)])
def test_the_engine_and_its_model_stay_small(package: ModuleType, most: int) -> None:
    """What grows over its limit has to lose something else, or become a part of its own."""
    folder = Path(package.__path__[0])
    sizes = {path.name: lines_of_code(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    assert len(sizes) > 10
    assert sum(sizes.values()) <= most, sizes
