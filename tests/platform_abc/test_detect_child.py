"""The child's comparison of the explanation with what the engine does by itself."""

from __future__ import annotations

import pytest

from platform_abc import detect_child
from platform_abc.resolution import ResolutionSpec
from platform_abc.resolution_report import ResolutionReport

SPEC = ResolutionSpec(engine="x", builtins={}, unspecified="a.B")
REPORT = ResolutionReport("x", chosen="a.B")


def _raises() -> str:
    raise RuntimeError("two are active")


@pytest.mark.parametrize(
    ("confirm", "warnings"),
    [
        (None, ()),
        (lambda: "a.B", ()),
        (lambda: "a.C", ("x itself resolves a.C",)),
        (_raises, ("x itself raises RuntimeError: two are active",)),
    ],
)
def test_a_difference_from_the_engine_is_a_warning(confirm: object, warnings: tuple[str, ...]) -> None:
    """Agreement is silent; another answer, or an error, is told."""
    spec = SPEC._replace(confirm=confirm)
    assert detect_child._confirmed(REPORT, spec).warnings == warnings
