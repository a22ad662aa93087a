"""Every seeded fault on vLLM's base is named by the right check, and its correct twin is not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.row import Mutant
from tests.vllm.table import MUTANTS

pytestmark = pytest.mark.vllm

_HANGS = "zoo:HangsInHook"
_ROWS = [
    pytest.param(
        one,
        id=f"{one.name}-{one.check}",
        marks=[pytest.mark.slow] if one.check.startswith("engine.") else [],
    )
    for one in MUTANTS
]
"""The table; an engine that boots takes half a minute."""
_PAIRS = sorted({(one.twin, one.check) for one in MUTANTS})


@pytest.mark.parametrize("mutant", _ROWS)
def test_the_fault_is_named(served: Any, mutant: Mutant) -> None:
    """The check that the table names fails on the mutant, with every part of its finding filled."""
    answer = served.judge(mutant.name, mutant.check)
    assert answer["outcome"] == "fail", answer
    for finding in answer["findings"]:
        assert all(str(part).strip() for part in finding.values()), finding


@pytest.mark.parametrize(
    ("twin", "check"),
    [pytest.param(*one, marks=[pytest.mark.slow] if one[1].startswith("engine.") else []) for one in _PAIRS],
    ids=lambda value: value,
)
def test_the_twin_passes(served: Any, twin: str, check: str) -> None:
    """The same check is quiet on a platform that does the same thing right."""
    answer = served.judge(twin, check)
    assert answer["outcome"] in ("pass", "unsupported"), answer


def test_a_hook_that_never_returns_is_a_failure_in_time(served: Any) -> None:
    """A hang ends at the time limit, and is the platform's fault."""
    answer = served.judge(_HANGS, "config.plain", limit=5.0)
    assert answer["outcome"] == "fail", answer
    assert "5 s" in answer["findings"][0]["platform_did"]


def test_every_class_of_the_zoo_is_in_the_table() -> None:
    """No broken platform is written and then forgotten."""
    used = {name for one in MUTANTS for name in (one.name, one.twin)} | {_HANGS}
    assert _classes() == used


def _classes() -> set[str]:
    """Every public class of the zoo's modules, read without importing them."""
    return {
        f"{file.stem}:{node.name}"
        for file in Path(__file__).parent.glob("zoo*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
