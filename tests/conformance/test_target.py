"""Names of platforms: taken apart without an import, followed module after module in a child."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.problems import UsageProblem
from conformance.target import FailedImport, Target, load, must_be_class, parse, require_top


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `shop` with a module, classes, and a module that raises."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text(
        "class Till:\n    class Drawer: ...\n"
        "def __getattr__(name):\n    if name == 'Lazy':\n        raise ImportError('no till driver')\n"
        "    raise AttributeError(name)\n"
    )
    (package / "acme.py").write_text("class AcmePlatform: kind = 'x'\nclass Other: ...\ndef probe(): ...\n")
    (package / "broken.py").write_text("raise RuntimeError('out of order')\n")
    (package / "needy.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    for name in [one for one in sys.modules if one == "shop" or one.startswith("shop.")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("acme", "names no class"),
        ("acme:", "malformed (an empty part"),
        (":AcmePlatform", "malformed (an empty part"),
        ("acme::AcmePlatform", "malformed"),
        ("a:b:c", "malformed ('b:c'"),
        ("acme..AcmePlatform", "malformed (an empty part"),
        (".acme.AcmePlatform", "malformed"),
        ("acme:Acme Platform", "malformed ('Acme Platform'"),
        ("acme:class", "malformed ('class'"),
        ("acme:1st", "malformed ('1st'"),
        ("my-pkg:Cls", "malformed ('my-pkg'"),
        ("acme.py:AcmePlatform", "is a file"),
        ("acme.py", "is a file"),
        ("./acme:AcmePlatform", "is a file"),
    ],
)
def test_a_malformed_name_is_refused_with_the_forms(text: str, told: str) -> None:
    """What is no dotted name is refused in one line that shows how to write it."""
    with pytest.raises(UsageProblem) as caught:
        parse(text)
    assert told in caught.value.line
    assert "write package.module:Class" in caught.value.line
    assert "\n" not in caught.value.line


def test_a_name_is_taken_apart() -> None:
    """Both forms, with nested classes after the colon."""
    assert parse("a.b:C.D") == Target("a.b:C.D", ("a", "b"), ("C", "D"))
    assert parse(" a.b.C ") == Target(" a.b.C ", ("a", "b", "C"))


@pytest.mark.parametrize("text", ["shop.acme:AcmePlatform", "shop.acme.AcmePlatform"])
def test_both_forms_lead_to_the_class(shop: Path, text: str) -> None:
    """Colon and dot name the same class."""
    assert must_be_class(parse(text), load(parse(text))).__name__ == "AcmePlatform"


@pytest.mark.parametrize("text", ["shop:Till.Drawer", "shop.Till.Drawer"])
def test_nested_classes_are_found(shop: Path, text: str) -> None:
    """A class inside a class, in both forms."""
    assert must_be_class(parse(text), load(parse(text))).__qualname__ == "Till.Drawer"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shopp.acme:X", "there is no module 'shopp'; did you mean 'shop'?"),
        ("shop.acmee:X", "there is no module 'shop.acmee'; did you mean 'acme'?"),
        ("shop.acme.deeper:X", "there is no module 'shop.acme.deeper'"),
        ("shop.acme:AcmePlatfrom", "'shop.acme' has no name 'AcmePlatfrom'; did you mean 'AcmePlatform'?"),
        ("shop.acme.acmeplatform", "did you mean 'AcmePlatform'?"),
        ("shop.acme:Zzz", "; it has AcmePlatform, Other"),
        ("shop:Till.Draw", "'shop.Till' has no name 'Draw'"),
        ("shop.zzz.Cls", "there is no module 'shop.zzz'; it has acme, broken, needy"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_with_a_near_one(shop: Path, text: str, told: str) -> None:
    """No such module or name: what is missing, and what there is."""
    with pytest.raises(UsageProblem) as caught:
        load(parse(text))
    assert told in caught.value.line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shop.acme:probe", "is a function, not a class"),
        ("shop.acme:AcmePlatform.kind", "is an instance of str, not a class"),
        ("shop.acme", "is a module; name a class in it, for example shop.acme:AcmePlatform"),
    ],
)
def test_what_is_no_class_is_refused(shop: Path, text: str, told: str) -> None:
    """A function, an instance, a module: each is named for what it is."""
    with pytest.raises(UsageProblem) as caught:
        must_be_class(parse(text), load(parse(text)))
    assert told in caught.value.line


@pytest.mark.parametrize(
    ("text", "module", "cause"),
    [
        ("shop.broken:X", "shop.broken", RuntimeError),
        ("shop.broken.X", "shop.broken", RuntimeError),
        ("shop.needy:X", "shop.needy", ModuleNotFoundError),
        ("shop:Lazy", "shop.Lazy", ImportError),
    ],
)
def test_a_found_module_that_raises_is_a_failed_import(
    shop: Path, text: str, module: str, cause: type[Exception]
) -> None:
    """A module that exists and raises is not a missing module, whatever it raises."""
    with pytest.raises(FailedImport) as caught:
        load(parse(text))
    assert caught.value.module == module
    assert isinstance(caught.value.__cause__, cause)


def test_the_top_level_is_looked_for_without_an_import(shop: Path) -> None:
    """A top-level package that does not exist is known before anything is imported."""
    with pytest.raises(UsageProblem, match="there is no module 'shopping'"):
        require_top(parse("shopping.acme:X"))
    require_top(parse("shop.broken:X"))
    assert "shop" not in sys.modules
