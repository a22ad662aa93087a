"""Each way in which a dotted name can fail is told apart from the others."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_abc.errors import FailingImport, MalformedQualname, MissingModule, MissingName, QualnameError
from platform_abc.qualname import resolve_obj_by_qualname


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `qn_pkg` on the import path, to be filled by the test; forgotten afterwards."""
    folder = tmp_path / "qn_pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("class InPackage:\n    class Inner:\n        pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "qn_pkg"]:
        del sys.modules[name]


def test_a_class_of_a_module_is_imported() -> None:
    """The plain case: package, module, name."""
    assert resolve_obj_by_qualname("collections.OrderedDict") is OrderedDict


def test_a_nested_class_resolves(package: Path) -> None:
    """What follows the module is a path of attributes, also from a module and from a package."""
    (package / "mod.py").write_text("class Outer:\n    class Inner:\n        deep = 3\n")
    assert resolve_obj_by_qualname("qn_pkg.mod.Outer.Inner.deep") == 3
    assert resolve_obj_by_qualname("qn_pkg.InPackage.Inner").__name__ == "Inner"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    ["", "name", "a..b", ".a.b", "a.b.", "pkg:Name", "a b.c", "a.1b", "auto", None, 3, b"a.b", ["a.b"]],
)
def test_a_malformed_name_is_refused(name: object) -> None:
    """Anything but identifiers joined by dots is refused with the form that was expected."""
    with pytest.raises(MalformedQualname, match=r"expected a dotted name \"package.module.Name\""):
        resolve_obj_by_qualname(name)  # type: ignore[arg-type]


def test_a_colon_is_pointed_out() -> None:
    """The spelling of entry points is the likeliest mistake, and the text says what to write."""
    with pytest.raises(MalformedQualname, match="write a dot, not a colon"):
        resolve_obj_by_qualname("pkg.mod:Name")


def test_a_missing_package_is_a_missing_module() -> None:
    """The module is named on the error, as Python's own does."""
    with pytest.raises(MissingModule, match="no package 'no_such_package_here'") as caught:
        resolve_obj_by_qualname("no_such_package_here.mod.Name")
    assert caught.value.name == "no_such_package_here"


def test_a_missing_submodule_is_a_missing_module(package: Path) -> None:
    """The package is there, so the text says which module it lacks."""
    with pytest.raises(MissingModule, match="qn_pkg has no module 'nope'"):
        resolve_obj_by_qualname("qn_pkg.nope.Name")


def test_what_a_module_only_imports_is_not_suggested(package: Path) -> None:
    """A base class that the module imports has a close name, and is not what the vendor meant."""
    (package / "mod.py").write_text("from collections import OrderedDict\nclass Other: pass\n")
    with pytest.raises(MissingName, match="has no name 'OrderedDicts'$"):
        resolve_obj_by_qualname("qn_pkg.mod.OrderedDicts")


def test_a_missing_name_suggests_a_close_one(package: Path) -> None:
    """A typo in the class name is answered with the name that is there."""
    (package / "mod.py").write_text("class MyPlatform: pass\n")
    with pytest.raises(MissingName, match="did you mean 'MyPlatform'"):
        resolve_obj_by_qualname("qn_pkg.mod.MyPlatfrom")
    with pytest.raises(MissingName, match="has no name 'zzz'"):
        resolve_obj_by_qualname("qn_pkg.mod.MyPlatform.zzz")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import vendor_dependency_that_is_missing", "No module named 'vendor_dependency_that_is_missing'"),
        ("from qn_pkg import not_there", "cannot import name 'not_there'"),
        ("raise ModuleNotFoundError('by hand')", "ModuleNotFoundError: by hand"),
        ("raise AttributeError('inside')", "AttributeError: inside"),
        ("def", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("class Odd(BaseException): pass\nraise Odd('panic')", "Odd: panic"),
        ("import sys; del sys.modules[__name__]", "removed it from sys.modules|KeyError"),
    ],
)
def test_a_module_that_raises_is_a_failing_import(package: Path, source: str, told: str) -> None:
    """What goes wrong inside the module is never reported as a missing module; the cause is told."""
    (package / "mod.py").write_text(source + "\n")
    with pytest.raises(FailingImport, match=told):
        resolve_obj_by_qualname("qn_pkg.mod.Name")


def test_the_cause_is_chained(package: Path) -> None:
    """The original error, with its traceback, hangs on ours."""
    (package / "mod.py").write_text("1 / 0\n")
    with pytest.raises(FailingImport) as caught:
        resolve_obj_by_qualname("qn_pkg.mod.Name")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_failing_package_is_a_failing_import(package: Path) -> None:
    """A package whose `__init__` imports its own missing submodule fails; it is not missing."""
    (package / "__init__.py").write_text("import qn_pkg.mod\n")
    with pytest.raises(FailingImport, match="No module named 'qn_pkg.mod'"):
        resolve_obj_by_qualname("qn_pkg.mod.Name")


def test_an_interrupt_passes(package: Path) -> None:
    """Ctrl-C during an import is the user's, not the module's."""
    (package / "mod.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        resolve_obj_by_qualname("qn_pkg.mod.Name")


def test_a_module_getattr_that_raises_is_a_failing_import(package: Path) -> None:
    """A lazy name whose code raises is there, so it is not a missing name."""
    (package / "mod.py").write_text("def __getattr__(name): raise RuntimeError('lazy')\n")
    with pytest.raises(FailingImport, match="RuntimeError: lazy"):
        resolve_obj_by_qualname("qn_pkg.mod.Name")


def test_a_circular_import_is_called_one(package: Path) -> None:
    """A name that is not there *yet* is told apart from one that never is."""
    (package / "mod.py").write_text(
        "from platform_abc.qualname import resolve_obj_by_qualname\n"
        "try:\n    resolve_obj_by_qualname('qn_pkg.mod.Late')\n"
        "except Exception as error:\n    told = str(error)\n"
        "class Late: pass\n"
    )
    assert "circular import" in str(resolve_obj_by_qualname("qn_pkg.mod.told"))


@given(st.text())
def test_any_text_gives_an_object_or_one_of_our_errors(text: str) -> None:
    """No text makes it raise anything but a `QualnameError`."""
    try:
        resolve_obj_by_qualname(text)
    except QualnameError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "def __getattr__(name): raise RuntimeError('no ' + name)\n",
            "reading 'Outer' of .* raised RuntimeError",
        ),
        ("def __getattr__(name): raise SystemExit(3)\n", "reading 'Outer' of .* raised SystemExit: 3"),
        ("def __dir__(): raise KeyError('x')\n", "has no name 'Outer'"),
        ("def __dir__(): return [1, 2]\n", "has no name 'Outer'"),
    ],
)
def test_a_module_that_answers_oddly_gives_a_qualname_error(package: Path, source: str, told: str) -> None:
    """Whatever its own `__getattr__` and `__dir__` raise or return."""
    (package / "odd.py").write_text(source)
    with pytest.raises(QualnameError, match=told):
        resolve_obj_by_qualname("qn_pkg.odd.Outer.Inner")


def test_a_module_that_answers_every_name_is_no_package(package: Path) -> None:
    """Its nested classes are attributes; `__path__` from its `__getattr__` tells nothing."""
    (package / "odd.py").write_text("class _Outer:\n    Inner = 5\ndef __getattr__(name): return _Outer\n")
    assert resolve_obj_by_qualname("qn_pkg.odd.Outer.Inner") == 5


def test_a_class_that_a_package_makes_when_it_is_read_is_found(package: Path) -> None:
    """It is no submodule and not in the package's dictionary."""
    (package / "__init__.py").write_text(
        "class _Outer:\n    Inner = 5\n"
        "def __getattr__(name):\n    if name == 'Lazy': return _Outer\n    raise AttributeError(name)\n"
    )
    assert resolve_obj_by_qualname("qn_pkg.Lazy.Inner") == 5
