"""Snapshots compared, fields found again in a config, and changes as a sentence."""

from __future__ import annotations

from types import SimpleNamespace as Part
from typing import Any

from conformance.checks._configs import Ran, differences, spelled, value_at


class NoEquality:
    """Refuses to be compared, as arrays do."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.text} at 0x7f00>"


def test_differences_show_both_values_and_what_is_absent() -> None:
    """A changed, a new and a removed field, each with what the other moment had."""
    assert differences({"a": 1, "b": 2}, {"a": 3, "c": 4}) == {
        "a": (1, 3),
        "b": (2, "(absent)"),
        "c": ("(absent)", 4),
    }


def test_values_that_refuse_comparison_are_compared_as_printed() -> None:
    """Without their addresses, two equal prints are no difference."""
    assert not differences({"a": NoEquality("x")}, {"a": NoEquality("x")})
    assert differences({"a": NoEquality("x")}, {"a": NoEquality("y")})


def test_a_field_is_found_again() -> None:
    """Through attributes and through dicts, whose keys may have dots."""
    value: list[int] = []
    config = Part(options={"a.b": {"c": value}, "a": {"b": 0}}, part=Part(leaf=value))
    assert value_at(config, "part.leaf") is value
    assert value_at(config, "options.a.b.c") is value
    assert value_at(config, "options.none.here") is None


def test_the_writer_of_a_field_is_the_hook_that_changed_it_last() -> None:
    """Of a whole part it is whoever changed something inside; else the main hook."""
    done = Ran(None, {}, {}, {"a.b": "apply_config_platform_defaults"})
    assert done.writer("a.b") == "apply_config_platform_defaults"
    assert done.writer("a") == "apply_config_platform_defaults"
    assert done.writer("z") == "check_and_update_config"


def test_long_lists_of_changes_are_cut() -> None:
    """A sentence shows a few and counts the rest."""
    changes: dict[str, tuple[Any, Any]] = {f"f{number}": (0, number) for number in range(1, 7)}
    assert spelled(changes).endswith("; and 2 more")
    assert spelled(changes).startswith("f1: 0 → 1; ")
