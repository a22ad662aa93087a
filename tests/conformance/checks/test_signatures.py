"""Binding an engine's calls to an override: what is refused, what lands elsewhere, what is fine."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from conformance.checks._signatures import Shape, base_shapes, bound_signature, open_ended, refusal


def base(selected: Any, config: Any, num_heads: int | None = None) -> None: ...


def old(head_size: int, dtype: Any) -> None: ...


def renamed(choice: Any, config: Any, num_heads: int | None = None) -> None: ...


def swapped(config: Any, selected: Any, num_heads: int | None = None) -> None: ...


def wider(selected: Any, config: Any, num_heads: int | None = None, extra: int = 0) -> None: ...


def anything(*args: Any, **kwargs: Any) -> None: ...


def keyword_only(selected: Any, config: Any, *, num_heads: int | None = None) -> None: ...


def of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature."""
    return inspect.signature(function)


@pytest.mark.parametrize("function", [base, wider, anything, renamed])
def test_a_call_that_fits_is_taken(function: Callable[..., Any]) -> None:
    """More optional parameters, `*args`, or another name for what goes by position are no faults."""
    assert refusal(of(base), of(function), Shape(1, ("config", "num_heads"))) == ""


def test_a_missing_keyword_is_named() -> None:
    """Python's own words say which argument is not taken."""
    assert "num_heads" in refusal(of(base), of(old), Shape(2, ("num_heads",)))


def test_swapped_positions_are_found() -> None:
    """A value that lands in another of the base's parameters is a fault, though the call binds."""
    assert "lands in `config`" in refusal(of(base), of(swapped), Shape(2))


def test_a_call_that_the_base_refuses_too_is_not_the_platforms_fault() -> None:
    """An engine that calls what its own base does not take is judged by binding alone."""
    assert refusal(of(base), of(anything), Shape(7)) == ""


def test_shapes_of_the_base_cover_optional_parameters_both_ways() -> None:
    """Required ones go by position; optional ones by position, by keyword, or not at all."""
    assert set(base_shapes(of(base))) == {Shape(2), Shape(2, ("num_heads",)), Shape(3)}
    assert any(refusal(of(base), of(keyword_only), shape) for shape in base_shapes(of(base)))


def test_shapes_keep_required_keywords() -> None:
    """A keyword-only parameter without a default is in every shape."""

    def strict(one: int, *, two: int, three: int = 0) -> None: ...

    assert set(base_shapes(of(strict))) == {Shape(1, ("two",)), Shape(1, ("two", "three"))}


def test_open_ended_bases_are_told_apart() -> None:
    """Only real calls can judge an override of a member with `*args`."""
    assert open_ended(of(anything))
    assert not open_ended(of(base))


def test_a_callable_without_a_signature_is_none() -> None:
    """What Python cannot tell is left to the other checks."""
    assert bound_signature(dict.fromkeys) is None or bound_signature(3) is None


def test_a_shape_reads_as_a_call() -> None:
    """The text of a finding shows the call."""
    assert Shape(2, ("num_heads",)).spelled("pick") == "pick(_, _, num_heads=…)"
