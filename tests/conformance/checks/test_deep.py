"""Printing what objects hold, for two moments and two copies."""

from __future__ import annotations

import contextvars
import logging
import threading

from conformance.checks._deep import deep_text, opaque


class Box:
    """Prints as nothing in particular."""


def test_what_an_object_holds_is_shown_at_any_depth() -> None:
    """An attribute set on an object inside containers changes the text."""
    box = Box()
    held = {"a": [(box, 1)]}
    before = deep_text(held)
    box.__dict__["seqs"] = 4
    assert deep_text(held) != before
    assert "seqs=4" in deep_text(held)


def test_two_equal_objects_print_alike_wherever_they_lie() -> None:
    """An address is no difference."""
    assert deep_text(Box()) == deep_text(Box())


def test_a_value_per_context_or_thread_is_shown() -> None:
    """A context variable and a thread-local are opaque, and their value counts."""
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    local = threading.local()
    before = deep_text(variable), deep_text(local)
    variable.set(3)
    local.value = 3
    assert opaque(variable)
    assert opaque(local)
    assert deep_text(variable) != before[0]
    assert deep_text(local) != before[1]


def test_what_is_hung_on_a_function_is_shown() -> None:
    """A function is its name and its attributes, not its address."""

    def hook() -> None: ...

    before = deep_text(hook)
    hook.__dict__["last"] = 1
    assert deep_text(hook) == f"{before}(last=1)"


def test_an_object_that_prints_itself_is_not_looked_into() -> None:
    """A logger's own cache is no state of a platform."""
    logger = logging.getLogger("conformance-test-deep")
    before = deep_text(logger)
    logger.isEnabledFor(logging.DEBUG)
    assert deep_text(logger) == before
    assert not opaque(logger)


def test_a_value_inside_itself_and_one_that_cannot_print_have_a_text() -> None:
    """Neither a loop nor a broken repr stops the printing."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    loop: list[object] = [Broken()]
    loop.append(loop)
    assert "RuntimeError" in deep_text(loop)
    assert "…" in deep_text(loop)
