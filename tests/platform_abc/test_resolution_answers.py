"""What detectors and classes may answer: names, nonsense, objects that fight back."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from platform_abc.errors import FailingImport, MalformedQualname, MissingModule, MissingName, ResolutionError
from platform_abc.resolution import resolve
from tests.platform_abc.fake_distributions import STRUCTURAL_PLATFORM
from tests.platform_abc.resolution_parts import (  # noqa: F401  fixtures are found by name
    GROUP,
    MEMBERS,
    answer,
    module_fixture,
    put,
    raising,
    site_fixture,
    spec,
)

# ------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("value", ["", False, True, 0, 3, b"a.B", object, ["a.B"], ()])
def test_an_answer_that_is_no_name_is_a_clear_error(value: object) -> None:
    """Also a falsy one: only `None` says that the device is absent."""
    with pytest.raises(
        ResolutionError, match="detector odd answered .*expected the dotted name of a class, or None"
    ):
        resolve(spec(good=answer("rs_platforms.One"), odd=answer(value)))


def test_an_answer_that_cannot_be_printed_is_still_an_error_of_ours() -> None:
    """A hostile `__repr__` changes nothing."""

    class Hostile:
        def __repr__(self) -> str:
            raise ValueError

    with pytest.raises(ResolutionError, match="an unprintable Hostile"):
        resolve(spec(odd=answer(Hostile())))


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("nodots", MalformedQualname),
        ("pkg.mod:Name", MalformedQualname),
        ("no_such_package_rs.mod.Name", MissingModule),
        ("rs_platforms.Nope", MissingName),
        ("rs_failing.Name", FailingImport),
    ],
)
def test_a_name_that_does_not_import_is_an_error_with_its_cause(
    site: Path, name: str, cause: type[Exception]
) -> None:
    """The detector is named, and the chained cause tells the ways to fail apart."""
    (site / "rs_failing.py").write_text("raise AttributeError('inside the platform module')\n")
    with pytest.raises(
        ResolutionError, match="detector odd chose a platform that cannot be imported"
    ) as caught:
        resolve(spec(odd=answer(name)))
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize("name", ["sys.path", "os.path.join", "collections.OrderedDict", "builtins.object"])
def test_a_name_that_is_no_platform_class_is_an_error(name: str) -> None:
    """A function, a value, or a class without the members of a platform."""
    with pytest.raises(ResolutionError, match="not a class|not a platform class: it has no _enum"):
        resolve(spec(odd=answer(name)))


@pytest.mark.parametrize("error", [TypeError("abstract"), AttributeError("x"), SystemExit(1)])
def test_a_class_that_cannot_be_made_is_an_error(module: ModuleType, error: BaseException) -> None:
    """Never an AttributeError or ImportError, which Python would rewrite at the import."""

    def failing(self: object) -> None:
        raise error

    module.One.__init__ = failing
    with pytest.raises(ResolutionError, match="which cannot be made") as caught:
        resolve(spec(a=answer("rs_platforms.One")))
    assert caught.value.__cause__ is error


# ------------------------------------------------------------------------------- hostile objects


class _OddStr(str):
    """A string whose own methods raise."""

    __slots__ = ()

    def __len__(self) -> int:
        raise ImportError

    def __bool__(self) -> bool:
        raise ImportError

    def __eq__(self, other: object) -> bool:
        raise AttributeError

    def __ne__(self, other: object) -> bool:
        raise AttributeError

    def __str__(self) -> str:
        raise AttributeError

    __hash__ = str.__hash__


def test_a_string_of_a_subclass_is_taken_as_the_string_it_is() -> None:
    """Its own comparison and its own truth are not asked."""
    _, report = resolve(spec(a=answer(_OddStr("rs_platforms.One"))))
    assert report.chosen == "rs_platforms.One"
    assert type(report.chosen) is str


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("    def __new__(cls):\n        return None\n", "calling it gave None, not an object of that class"),
        ("    def __new__(cls):\n        return 5\n", "calling it gave 5, not an object of that class"),
    ],
)
def test_a_class_that_makes_something_else_is_an_error(module: ModuleType, source: str, told: str) -> None:
    """`current_platform` is never `None` or a foreign object."""
    exec(STRUCTURAL_PLATFORM.format(name="One") + source, vars(module))
    with pytest.raises(ResolutionError, match=told):
        resolve(spec(a=answer("rs_platforms.One")))


def test_a_mock_is_no_class(module: ModuleType) -> None:
    """Although it says that it is one."""
    from unittest.mock import Mock

    module.One = Mock(spec=type)
    with pytest.raises(ResolutionError, match="which is a Mock, not a class"):
        resolve(spec(a=answer("rs_platforms.One")))


@pytest.mark.parametrize("error", [AttributeError("odd"), ImportError("odd"), SystemExit(5)])
def test_whatever_is_raised_elsewhere_is_a_resolution_error_too(
    module: ModuleType, error: BaseException
) -> None:
    """It says during which step; the cause is chained and the report is there."""

    class Meta(type):
        @property
        def __mro__(cls) -> tuple[type, ...]:  # type: ignore[override]
            raise error

    class One(metaclass=Meta):
        pass

    module.One = One
    with pytest.raises(ResolutionError, match="odd|SystemExit: 5") as caught:
        resolve(spec(a=answer("rs_platforms.One")))
    assert "while importing platform rs_platforms.One" in str(caught.value)
    assert caught.value.__cause__ is error
    assert caught.value.report is not None
