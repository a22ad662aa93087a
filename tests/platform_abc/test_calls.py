"""The calls that a Protocol's method allows, and who can take them."""

from __future__ import annotations

from platform_abc._calls import Call, calls_of, refused, same_parameters


class Declared:
    """Methods as a Protocol writes them."""

    def positional(self, a: int, b: int = 0, /) -> None:
        """By position only."""

    def keyword(self, *, a: int, b: int = 0) -> None:
        """By keyword only."""

    def either(self, a: int, /, b: int = 0) -> None:
        """The second one either way."""

    def nothing(self) -> None:
        """No argument."""


def test_calls_are_the_shortest_and_the_longest_in_each_spelling() -> None:
    """An argument with a default may be left out; a name may be used where the Protocol lets it."""
    assert calls_of(Declared.nothing) == (Call(),)
    assert calls_of(Declared.positional) == (Call(("a",)), Call(("a", "b")))
    assert calls_of(Declared.keyword) == (Call((), ("a",)), Call((), ("a", "b")))
    assert calls_of(Declared.either) == (Call(("a",)), Call(("a", "b")), Call(("a",), ("b",)))


def test_a_call_is_shown_as_it_is_written() -> None:
    """Positions first, then keywords."""
    assert Call(("a",), ("b",)).of("hook") == "hook(a, b=…)"


def test_the_first_call_that_fails_is_told_with_its_reason() -> None:
    """The text of the reason is Python's own."""

    def short(cls: type, a: int) -> None:
        """Take one."""

    calls = calls_of(Declared.positional)
    assert refused(short, calls, bound=True) == (Call(("a", "b")), "too many positional arguments")
    assert refused(short, calls, bound=False) == (Call(("a",)), "missing a required argument: 'a'")


def test_what_has_no_signature_is_not_blamed() -> None:
    """Some functions written in C do not say what they take."""
    assert refused(dict.update, calls_of(Declared.keyword), bound=True) is None


def test_same_parameters_means_names_kinds_and_defaults() -> None:
    """The name of the first one does not count, its annotation neither."""

    def one(self: object, a: int, *, b: int = 0) -> None:
        """Differ in no parameter."""

    def same(cls: object, a: str, *, b: str = "") -> None:
        """Differ in no parameter."""

    def renamed(self: object, c: int, *, b: int = 0) -> None:
        """Differ in a name."""

    def without_default(self: object, a: int, *, b: int) -> None:
        """Differ in a default."""

    def variadic(self: object, a: int, *args: int, b: int = 0) -> None:
        """Differ in taking more."""

    assert same_parameters(one, same)
    for other in (renamed, without_default, variadic, len):
        assert not same_parameters(one, other)
