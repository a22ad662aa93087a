"""Calls of components are found in an engine's source by their text."""

from __future__ import annotations

from pathlib import Path

from conformance.engines.base import PickedCall
from conformance.engines.component_scan import Place, scan

_SOURCE = """
def make(): return wrapper_cls(
    tokens,
    device=device,
    **more,
)
def wrapper_cls(one, two): ...
self.wrapper.add(x, y, scale=1.0)
self.wrapper.add(*everything)
self.wrapper.later(**everything)
other.add(x)
"""


def test_makers_and_methods_are_found_with_their_shapes(tmp_path: Path) -> None:
    """A definition is no call, a call with stars has no shape, and `**` is allowed where a class is made."""
    root = tmp_path / "engine"
    root.mkdir()
    (root / "use.py").write_text(_SOURCE, encoding="utf-8")
    found = scan(root, [Place("lora", ("*.py",), "wrapper_cls", "wrapper")])
    assert found == (
        PickedCall("lora", "__init__", 1, ("device",), "engine/use.py:2"),
        PickedCall("lora", "add", 2, ("scale",), "engine/use.py:8"),
    )


def test_a_place_that_a_version_lacks_has_no_calls(tmp_path: Path) -> None:
    """Files move between versions."""
    assert scan(tmp_path, [Place("graph", ("nowhere/*.py",), "made")]) == ()
