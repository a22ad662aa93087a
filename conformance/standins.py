"""What the names of a stand-in module are: a class that takes anything, and a value that says nothing.

Both pass for what code at the top of a module does with a library: derive, decorate, call, iterate,
compare, catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

if TYPE_CHECKING:
    from abc import ABCMeta as _Meta
else:
    _Meta = type(Protocol)
    """So that a class may derive from a stand-in and from an abstract class or a protocol."""

_KINDS: Final = (("Warning", Warning), ("Error", Exception), ("Exception", Exception))


class Nothing(str):
    """The value that a stand-in's function returns: an empty text, true, callable, with every attribute."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Be whatever function it was taken for."""
        return decorated(args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return Nothing()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __contains__(self, key: object) -> bool:
        return False

    def __lt__(self, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __repr__(self) -> str:
        return "<nothing, from a stand-in>"


class StandIn(_Meta):
    """The metaclass of a stand-in's classes; each is made when its name is first asked for."""

    @staticmethod
    def make(name: str, module: str) -> StandIn:
        """Make a class; one that is called like an exception can be caught."""
        bases = next(((kind,) for ending, kind in _KINDS if name.endswith(ending)), ())
        own = {"__module__": module, "__qualname__": name, "_is_stand_in": True, "__init__": _take_anything}
        return StandIn(name, bases, own)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make a value, or give back what is decorated; a class that derives from it is a class like any."""
        if "_is_stand_in" in vars(self) and not issubclass(self, Exception):
            return decorated(args, kwargs)
        return super().__call__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {self.__name__!r} has no attribute {name!r}")
        made = StandIn.make(name, self.__module__)
        made.__qualname__ = f"{self.__qualname__}.{name}"
        setattr(self, name, made)
        return made

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __contains__(self, key: object) -> bool:
        return False

    def __lt__(self, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__


def decorated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of a stand-in gives: the one function or class that it was given, else `Nothing`."""
    if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType | type):
        return args[0]
    return Nothing()


def _take_anything(self: object, *args: Any, **kwargs: Any) -> None:
    """The initialiser of every stand-in class."""
