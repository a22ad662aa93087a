"""The page of checks is made from the checks, and is current."""

from __future__ import annotations

import re
from pathlib import Path

from conformance.checks_page import page
from conformance.registry import all_checks
from tests.project.trees import needs_tree

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


@needs_tree
def test_the_page_is_current() -> None:
    """`python -m conformance.checks_page > docs/checks.md` would change nothing."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_check_has_its_section_and_its_anchor() -> None:
    """The link that a report gives leads to a heading of the page."""
    headings = re.findall(r"^### `(.+)`$", page(), re.MULTILINE)
    assert sorted(headings) == sorted(all_checks())
    for one in all_checks().values():
        assert one.docs == f"checks.md#{one.id.replace('.', '')}"
