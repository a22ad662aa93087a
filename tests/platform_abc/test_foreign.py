"""Text about hostile objects: one printable line, whatever their own methods do."""

from __future__ import annotations

import pytest

from platform_abc.foreign import LONGEST, describe, plain, printable, shown, traceback_text


def raising(error: BaseException) -> object:
    """An exception class and a plain class whose text methods raise."""

    class Hostile(Exception):
        def __str__(self) -> str:
            raise error

        def __repr__(self) -> str:
            raise error

    return Hostile()


@pytest.mark.parametrize("error", [ValueError(), SystemExit(3), GeneratorExit()])
def test_an_object_that_cannot_be_printed_is_described_by_its_type(error: BaseException) -> None:
    """Not even `SystemExit` from its text method comes out."""
    hostile = raising(error)
    assert isinstance(hostile, Exception)
    assert describe(hostile) == "Hostile: (its text cannot be read)"
    assert shown(hostile) == "an unprintable Hostile"
    assert "Hostile" in traceback_text(hostile)


def test_an_interrupt_while_printing_passes() -> None:
    """Ctrl-C is the user's."""
    with pytest.raises(KeyboardInterrupt):
        shown(raising(KeyboardInterrupt()))


def test_a_text_is_one_printable_line() -> None:
    """No line ends, no escape sequences for the terminal, no half characters that cannot be encoded."""
    assert describe(ValueError("two\n  lines")) == "ValueError: two lines"
    assert describe(ValueError()) == "ValueError"
    assert describe(ValueError("\x1b[31mred \ud800")) == "ValueError: \\x1b[31mred \\ud800"
    assert describe(ValueError("größe")) == "ValueError: größe"


def test_a_long_text_is_cut() -> None:
    """A message stays readable."""
    text = describe(ValueError("x" * 100_000))
    assert len(text) < LONGEST + 50
    assert text.endswith("…")


def test_a_traceback_that_cannot_be_made_falls_back_to_the_error() -> None:
    """The loader of a failing module is asked for its source, and may raise."""
    code = compile("raise ValueError('inside')", "hostile_source.py", "exec")

    class Loader:
        def get_source(self, name: str) -> str:
            raise SystemExit(4)

    try:
        exec(code, {"__name__": "hostile", "__loader__": Loader()})
    except ValueError as error:
        assert traceback_text(error) == (
            "ValueError: inside (its traceback cannot be formatted: SystemExit)\n"
        )


def test_control_characters_are_escaped_and_line_ends_kept() -> None:
    """For whole reports."""
    assert printable("a\tb\n\x07ü") == "a\tb\n\\x07ü"


def test_a_string_of_a_subclass_becomes_plain() -> None:
    """None of its own methods is used from then on."""

    class Odd(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            raise AttributeError

        __hash__ = str.__hash__

        def __str__(self) -> str:
            raise AttributeError

    made = plain(Odd("a.B"))
    assert type(made) is str
    assert made == "a.B"
    assert plain(3) == 3
