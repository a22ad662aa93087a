"""A warning about an override leads to the line to change."""

from __future__ import annotations

import functools
import importlib
import linecache
import sys
import warnings
from pathlib import Path

import pytest

from tests.platform_abc.contract_platforms import Complete


def test_the_warning_points_at_the_override() -> None:
    """At the line of the `def`, or of the assignment, in the vendor's own file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        class Vendor(Complete):
            @classmethod
            @functools.cache
            def get_device_name(cls) -> str:  # type: ignore[override]
                return "Dummy"

            def supported_dtypes(self) -> list[object]:  # type: ignore[override]
                return []

            get_punica_wrapper = "dummy.Wrapper"  # type: ignore[assignment]

            @property
            def device_type(self) -> str:  # type: ignore[override]
                return "cpu"

    lines = {linecache.getline(one.filename, one.lineno).strip().partition("(")[0] for one in caught}
    assert {Path(one.filename) for one in caught} == {Path(__file__)}
    assert lines == {
        "def get_device_name",
        "def supported_dtypes",
        'get_punica_wrapper = "dummy.Wrapper"  # type: ignore[assignment]',
        "def device_type",
    }


SOURCE = """
import functools
from dataclasses import dataclass
from tests.platform_abc.contract_platforms import Complete
from tests.platform_abc.test_enforce import passing_on, without


def unnamed(function):
    return lambda *args, **kwargs: function(*args, **kwargs)


class Assigned(Complete):
    get_device_name = classmethod(without)  # here


class Lambda(Complete):
    get_device_name = classmethod(lambda cls: "Dummy")  # here


class Right(Complete):
    @classmethod
    def get_device_name(cls, device_id=0):
        return "Dummy"


class Wrapped(Complete):
    @classmethod
    @passing_on
    def get_device_name(cls):  # here
        return "Dummy"


class Unnamed(Complete):
    if True:

        @unnamed
        def get_device_name(cls):  # here
            return "Dummy"


class Cached(Complete):
    @functools.cached_property
    def device_name(self):  # here
        return "dummy"


class Slots(Complete):
    __slots__ = (
        "other",
        "device_name",  # here
    )


@dataclass(slots=True)
class Data(Complete):
    number: int = 0
    device_name: str = "dummy"  # here


class Several(Complete):
    x, get_device_name = 1, None  # here
    get_device_names = 1


try:
    raise ImportError

    class Twice(Complete):
        get_device_name = 1
except ImportError:

    class Twice(Complete):
        get_device_name = 1  # here


class Meta(type(Complete)):
    def __new__(mcls, *args, **kwargs):
        return super().__new__(mcls, *args, **kwargs)


class Made(Complete, metaclass=Meta):
    get_device_name = 1  # here


class MadeUp(Complete, metaclass=Meta):  # here
    vars()["get_device_name"] = 1


class Mixin:
    class Generated:
        get_device_name = 1

    get_device_name = 1  # here


class Mixed(Mixin, Complete):
    pass


class Again(Complete):
    get_device_name = 1
    get_device_name = 2  # here


class Nested(Complete):
    def get_device_names(self):
        get_device_name = 1

    class get_device_name:  # here
        pass


class Generated(Complete):  # here
    locals()["get_device_name"] = 1
"""


def test_the_warning_points_at_the_line_to_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at a decorator's module, at a helper, or at the next class; however the override is written."""
    path = tmp_path / "vendor_of_places.py"
    path.write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        importlib.import_module(path.stem)
    monkeypatch.delitem(sys.modules, path.stem)
    marked = {number for number, line in enumerate(SOURCE.splitlines(), 1) if line.endswith("# here")}
    assert {(Path(one.filename).name, one.lineno) for one in caught} == {(path.name, line) for line in marked}
    assert len(marked) == 15


def test_without_source_the_warning_points_at_the_class_statement() -> None:
    """Code from a string has no file; the frame that runs it still has a place."""
    namespace = {"__name__": "made_up", "Complete": Complete}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(
            compile("\n\nclass Vendor(Complete):\n    get_punica_wrapper = 1\n", "<string>", "exec"),
            namespace,
        )
    assert (caught[0].filename, caught[0].lineno) == ("<string>", 3)
