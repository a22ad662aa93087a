"""Places that Python itself cannot point to, and what to write instead of a line that raises."""

from __future__ import annotations

import inspect
import os
from typing import Any

import pytest

from conformance import places, remedies


class Holder:
    """Sets values on itself in several ways."""

    def __init__(self) -> None:
        self.plain = 1
        self.noted: int = 2
        self.one, self.other = 3, 4
        setattr(self, "by_call", 5)

    def hook(self, config: Any) -> None:
        """Write to a config and to the environment."""
        config.cache_config.block_size = 16
        config.options["level"] = 1
        config.compilation_config.custom_ops.append("+norm")
        os.environ.setdefault("CHIP_LEVEL", "1")
        del config.scratch


def _line(place: str) -> str:
    file, _, number = place.rpartition(":")
    assert file == __file__
    return inspect.getsource(inspect.getmodule(Holder) or Holder).splitlines()[int(number) - 1].strip()


@pytest.mark.parametrize("name", ["plain", "noted", "one", "other", "by_call"])
def test_what_an_instance_sets(name: str) -> None:
    """The statement that sets `self.<name>` is found."""
    assert name in _line(places.on_instance(Holder, name))


@pytest.mark.parametrize("name", ["block_size", "level", "custom_ops", "CHIP_LEVEL", "scratch"])
def test_what_a_hook_writes(name: str) -> None:
    """The statement that writes a field, a key, a list or a variable is found."""
    assert name in _line(places.written(Holder.hook, name))


def test_what_is_not_there() -> None:
    """No statement, no source, no line: empty."""
    assert places.on_instance(Holder, "absent") == ""
    assert places.on_instance(int, "real") == ""
    assert places.written(Holder.hook, "absent") == ""
    assert places.written(len, "absent") == ""
    assert places.quoted("") == ""
    assert places.quoted("nowhere.py:1") == ""


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        ("KeyError: 'level'", ".get('level')"),
        ("AttributeError: 'NoneType' object has no attribute 'use_mla'", "test for None first"),
        ("TypeError: argument of type 'NoneType' is not iterable", "test for None first"),
        ("AttributeError: '_Layer' object has no attribute 'size'", "getattr(…, 'size', None)"),
        ("IndexError: list index out of range", "length"),
        ("UnboundLocalError: cannot access local variable 'chosen'", "a value"),
        ("NameError: name 'x' is not defined", "define or import"),
        ("ModuleNotFoundError: No module named 'chip'", "except ImportError"),
        ("RuntimeError: no", ""),
    ],
)
def test_what_to_write_instead(raised: str, says: str) -> None:
    """A mistake of a known kind comes with its remedy, another error with none."""
    assert says in remedies.instead(raised)
    assert bool(remedies.instead(raised)) is bool(says)
