"""Stand-ins: what they are good for, when they come, and that every report says so."""

from __future__ import annotations

import importlib
import json
import pickle
import re
import sys
from abc import ABC
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional, Protocol

import pytest

from conformance import stubs
from conformance.problems import UsageProblem
from conformance.stubs import Stubs
from conformance.target import parse
from tests.conformance.conftest import Vendor

USES = """
import acme_lib._C, acme_lib.ops.moe
from acme_lib import Handle, LibError, init

try:
    ARCH = init().handles()[0].get("arch")
except LibError:
    raise SystemExit("no stand-in")

@init
def helper():
    return "helped"
"""


@pytest.fixture
def absent() -> Iterator[Any]:
    """A stand-in for a library that nobody has."""
    stubs.put(["acme_lib"])
    yield importlib.import_module("acme_lib")
    stubs.remove()


def test_code_at_the_top_of_a_module_gets_through(absent: Any):
    """Derive, decorate, call, index, iterate, compare, catch, annotate: nothing of it raises."""

    class Some(Protocol):
        """A protocol."""

    class One(absent.Base, ABC):
        """A class with an abstract one beside it."""

    class Two(absent.Base.Inner[int], Some):
        """A class with a protocol beside it and arguments of its own."""

        def __init__(self, size: int) -> None:
            super().__init__(size, more=True)
            self.size = size

    @absent.register
    def plain() -> int:
        return 1

    @absent.register("name", kind=2)
    def called() -> int:
        return 2

    assert isinstance(One(), One)
    assert Two(3).size == 3
    assert (plain(), called()) == (1, 2)
    value = absent.init()
    assert (list(value), int(value), "gfx" in value, value > 3, bool(value)) == ([], 0, False, False, True)
    assert re.match("gfx", value[0].arch.get("x", 1)) is None
    assert Optional[absent.Base]  # noqa: UP045  what vendors write
    assert absent.Base | None
    with absent.lock(), pytest.raises(absent.LibError):
        raise absent.LibError("caught")
    assert issubclass(absent.LibWarning, Warning)
    assert pickle.loads(pickle.dumps(absent.Base.Inner)) is absent.Base.Inner
    assert importlib.import_module("acme_lib.deep._C").thing is not None


def test_a_stand_in_has_no_names_of_pythons_own(absent: Any):
    """Python and libraries ask for dunder names to learn what a thing is; a stand-in is nothing special."""
    for thing in (absent, absent.Base, absent.init()):
        assert not hasattr(thing, "__torch_function__")
    assert absent.__version__ == "0"


def test_what_really_imports_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Absent and broken modules get a stand-in, one that imports gets none, and nothing stays behind."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_lib").mkdir()
    (tmp_path / "broken_lib" / "__init__.py").write_text("from . import part\nraise OSError('no driver')\n")
    (tmp_path / "broken_lib" / "part.py").touch()
    made = stubs.put(["absent_lib.part", "broken_lib", "attrs"], parse("acme:AcmePlatform"))
    try:
        assert made == Stubs(("absent_lib.part",), ("broken_lib",), ("attrs",))
        assert made.names == stubs.in_place() or set(made.names) == set(stubs.in_place())
        assert stubs.is_stub(importlib.import_module("broken_lib.part"))
        assert stubs.is_stub(importlib.import_module("absent_lib.part"))
        assert not stubs.is_stub(importlib.import_module("attrs"))
        with stubs.lifted(), pytest.raises(OSError, match="no driver"):
            importlib.import_module("broken_lib")
        assert stubs.is_stub(importlib.import_module("broken_lib"))
    finally:
        stubs.remove()
    assert not [name for name in sys.modules if name.startswith(("absent_lib", "broken_lib"))]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "is no dotted name"),
        ("a,b", "repeat the option for each"),
        ("a..b", "is no dotted name"),
        ("a.class", "is no dotted name"),
        ("os.path", "nothing can stand in for"),
        ("torch", "nothing can stand in for"),
        ("platform_abc.types", "nothing can stand in for"),
    ],
)
def test_a_wrong_name_is_one_line(name: str, says: str):
    """Names that are no names, and modules that the kit lives on, are refused with a hint."""
    with pytest.raises(UsageProblem, match=says):
        stubs.read([name], "--conformance-stub")


def test_names_given_twice_count_once_and_parts_of_engines_are_allowed():
    """`vllm._C` may be missing, vLLM may not."""
    assert stubs.read(["vllm._C", "x", "vllm._C"], "stub") == ("vllm._C", "x")


def test_nothing_stands_in_for_the_platform_itself():
    """Neither the platform's module nor a package around it can be replaced; a part of the package can."""
    for name in ("acme", "acme.platform"):
        with pytest.raises(UsageProblem, match="the platform acme.platform:P itself"):
            stubs.require_other([name], "acme.platform:P")
    stubs.require_other(["acme._C", "acme.platform._C"], "acme.platform:P")


def test_a_run_with_stand_ins_says_so_everywhere(vendor: Vendor):
    """The platform imports, the verdict is partial, and terminal, report and page name what stood in."""
    vendor.platform(before=USES)
    ran = vendor.kit("--conformance-stub=acme_lib", "--conformance-stub=json", "--conformance-html=page.html")
    assert ran.code == 4
    assert "'json' is part of Python" in ran.out
    ran = vendor.kit(
        "--conformance-stub=acme_lib", "--conformance-stub=attrs", "--conformance-html=page.html"
    )
    assert (ran.code, ran.verdict) == (0, "partial"), ran.out
    assert "conformance: stand-ins are in place for acme_lib\n" in ran.out
    assert "conformance: --conformance-stub attrs was not needed: it imports\n" in ran.out
    assert "with a stand-in for acme_lib; " in ran.last
    assert ran.report is not None
    assert ran.report["environment"]["stubs"] == ["acme_lib"]
    assert "<th>stand-ins for</th><td>acme_lib</td>" in (vendor.folder / "page.html").read_text()


def test_a_failed_import_beside_a_stand_in_names_it_too(vendor: Vendor):
    """The stand-in that did not help stands in the verdict line as well."""
    vendor.platform(before="import acme_lib, other_lib\n")
    ran = vendor.kit("--conformance-stub=acme_lib")
    assert (ran.code, ran.verdict) == (1, "not conformant")
    assert "with a stand-in for acme_lib" in ran.last
    assert "No module named 'other_lib'" in ran.out


def test_a_part_of_the_platforms_own_package_can_be_missing(vendor: Vendor):
    """A compiled part is not tried before the import, since that would import the package; it is seen after."""
    vendor.write("acme_pkg/__init__.py", "")
    vendor.platform(before="import acme_pkg._C, acme_pkg.real\n")
    (vendor.folder / "acme.py").rename(vendor.folder / "acme_pkg" / "platform.py")
    vendor.write("acme_pkg/real.py", "")
    ran = vendor.kit(
        "--conformance-stub=acme_pkg._C",
        "--conformance-stub=acme_pkg.real",
        platform="acme_pkg.platform:AcmePlatform",
    )
    assert ran.code == 0, ran.out
    assert ran.report is not None
    assert ran.report["environment"]["stubs"] == ["acme_pkg._C"]
    assert "--conformance-stub acme_pkg.real was not needed" in ran.out


def test_fresh_interpreters_have_them_after_the_engine_has_settled(vendor: Vendor):
    """`apply` puts them in place there; before it nothing stands in, as detectors must see it."""
    vendor.platform(before="import acme_lib\n")
    vendor.write(
        "shop.py",
        """
        import importlib.util
        from conformance import stubs

        def look():
            before = importlib.util.find_spec("acme_lib") is not None
            return [before, list(stubs.apply("native")), importlib.import_module("acme").AcmePlatform.device_name]
        """,
    )
    vendor.checks(
        """
        def fresh(ctx):
            ctx.details["seen"] = ctx.fresh("shop:look")
            ctx.details["here"] = ctx.stubs

        sham("identity.fresh", fresh, where="fresh")
        """
    )
    ran = vendor.kit("--conformance-stub=acme_lib")
    assert ran.code == 0, ran.out
    assert ran.report is not None
    details = next(one["details"] for one in ran.report["checks"] if one["id"] == "identity.fresh")
    assert details == {"seen": [False, ["acme_lib"], "acme"], "here": ["acme_lib"]}


def test_the_other_ways_to_say_it(vendor: Vendor):
    """The configuration file, the command line and `check_platform` know the option; a wrong type is one line."""
    vendor.platform(before="import acme_lib\n")
    vendor.write("kit.toml", 'stub = ["acme_lib"]\n')
    ran = vendor.kit("--conformance-config=kit.toml")
    assert ran.verdict == "partial", ran.out
    vendor.write("kit.toml", "stub = 3\n")
    ran = vendor.kit("--conformance-config=kit.toml")
    assert (ran.code, "stub must be the name of a module" in ran.out) == (4, True)
    vendor.write(
        "script.py",
        """
        import json
        from conformance import check_platform
        from conformance.api import verdict_of

        results = check_platform("acme:AcmePlatform", level="static", stub="acme_lib", checks_from="shams")
        print(json.dumps([verdict_of(results).value, sorted({one.outcome.value for one in results})]))
        """,
    )
    ran = vendor._run([sys.executable, "script.py"], {})
    assert json.loads(ran.last) == ["partial", ["pass"]]
    assert "--stub" in vendor.command("check", "--help", NO_COLOR="1").out
