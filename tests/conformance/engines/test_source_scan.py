"""The scan of an engine's source: which uses it finds, their shapes, and what guards them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance.engines.base import EngineCall
from conformance.engines.source_scan import applies, by_member, scan


def found(folder: Path, source: str, **options: object) -> list[EngineCall]:
    """Scan one module of a package `eng`."""
    package = folder / "eng"
    package.mkdir(exist_ok=True)
    text = "from eng.platforms import current_platform\n" + textwrap.dedent(source)
    (package / "mod.py").write_text(text, encoding="utf-8")
    given = {"common": lambda file, function: False, **options}
    return list(scan(package, **given))  # type: ignore[arg-type]


def test_a_call_has_its_shape_and_place(tmp_path: Path) -> None:
    """Positional arguments are counted, keywords named, the site is file and line."""
    (call,) = found(tmp_path, "x = current_platform.pick(1, 2, config=3)\n")
    assert (call.member, call.positional, call.keywords) == ("pick", 2, ("config",))
    assert (call.site, call.is_read, call.exact, call.via) == ("eng/mod.py:2", False, True, "instance")


def test_a_read_is_no_call(tmp_path: Path) -> None:
    """An attribute that is not called is a read."""
    (read,) = found(tmp_path, "x = current_platform.device_type\n")
    assert read.is_read


def test_stars_make_a_shape_inexact(tmp_path: Path) -> None:
    """A call with `*args` or `**kwargs` does not say all that it passes."""
    calls = found(tmp_path, "current_platform.a(*x)\ncurrent_platform.b(1, **y)\n")
    assert [(call.exact, call.positional) for call in calls] == [(False, 0), (False, 1)]


@pytest.mark.parametrize(
    "source",
    [
        "from eng.platforms import current_platform as cp\ncp.ask()\n",
        "def f():\n    p = current_platform\n    p.ask()\n",
        "import eng.platforms as platforms\nplatforms.current_platform.ask()\n",
        "class A:\n    def f(self):\n        self.current_platform.ask()\n",
        'getattr(current_platform, "ask")()\n',
        "def f():\n    from eng.platforms import current_platform as here\n    here.ask()\n",
        "class A:\n    @current_platform.ask()\n    def f(self): ...\n",
        "def f(x=current_platform.ask()): ...\n",
        "async def f():\n    async with x:\n        return [current_platform.ask() for _ in y]\n",
        "match x:\n    case 1:\n        current_platform.ask()\n",
        "while x:\n    y: int = current_platform.ask()\n",
    ],
)
def test_every_spelling_is_found(tmp_path: Path, source: str) -> None:
    """Aliases, attributes of modules and objects, getattr, decorators, defaults, comprehensions, match."""
    assert [call.member for call in found(tmp_path, source)] == ["ask"]


def test_a_call_on_the_class_is_told_from_one_on_the_instance(tmp_path: Path) -> None:
    """`type(current_platform).x()` and an alias of it go through the class."""
    calls = found(
        tmp_path,
        "type(current_platform).a()\nc = type(current_platform)\nc.b()\ncurrent_platform.__class__.d()\n",
    )
    assert [(call.member, call.via) for call in calls] == [("a", "class"), ("b", "class"), ("d", "class")]


@pytest.mark.parametrize(
    ("source", "requires"),
    [
        ("if current_platform.is_cuda():\n    current_platform.ask()\n", ("is_cuda",)),
        ("if not current_platform.is_cuda():\n    current_platform.ask()\n", ("!is_cuda",)),
        ("if current_platform.is_cuda():\n    pass\nelse:\n    current_platform.ask()\n", ("!is_cuda",)),
        (
            "if current_platform.is_cuda() or current_platform.is_rocm():\n    current_platform.ask()\n",
            ("is_cuda|is_rocm",),
        ),
        ("x = current_platform.is_cuda() and current_platform.ask()\n", ("is_cuda",)),
        ("x = current_platform.ask() if current_platform.is_xpu() else 0\n", ("is_xpu",)),
        ("on = current_platform.is_cuda()\nif on:\n    current_platform.ask()\n", ("is_cuda",)),
        (
            "def f():\n    if not current_platform.is_cuda():\n        return\n    current_platform.ask()\n",
            ("is_cuda",),
        ),
        ('if current_platform.device_type == "cpu":\n    current_platform.ask()\n', ("device_type=cpu",)),
        (
            'if current_platform.device_type in ("cpu", "xpu"):\n    current_platform.ask()\n',
            ("device_type=cpu|device_type=xpu",),
        ),
        ("if x:\n    current_platform.ask()\n", ()),
    ],
)
def test_lexical_guards_become_requirements(tmp_path: Path, source: str, requires: tuple[str, ...]) -> None:
    """What has to hold for a use to be reached stands beside it."""
    (call,) = [one for one in found(tmp_path, source) if one.member == "ask"]
    assert call.requires == requires


@pytest.mark.parametrize(
    ("source", "guarded"),
    [
        ("try:\n    current_platform.ask()\nexcept NotImplementedError:\n    pass\n", True),
        ("try:\n    current_platform.ask()\nexcept Exception:\n    pass\n", True),
        ("try:\n    current_platform.ask()\nexcept (KeyError, NotImplementedError):\n    pass\n", True),
        ("try:\n    current_platform.ask()\nexcept KeyError:\n    pass\n", False),
        ("try:\n    pass\nexcept Exception:\n    current_platform.ask()\n", False),
        ("with contextlib.suppress(NotImplementedError):\n    current_platform.ask()\n", True),
        ('getattr(current_platform, "ask", None)\n', True),
        ('getattr(current_platform, "ask")\n', False),
    ],
)
def test_tolerance_is_seen(tmp_path: Path, source: str, guarded: bool) -> None:
    """A use inside a try that takes NotImplementedError, or with a default, is guarded."""
    (call,) = found(tmp_path, source)
    assert call.guarded is guarded


def test_text_at_the_first_column_does_not_mislead(tmp_path: Path) -> None:
    """A string whose lines begin at the left margin does not hide the use after it."""
    source = 'TEXT = """\ndef current_platform is only text\n"""\ncurrent_platform.ask()\n'
    assert [(call.member, call.site) for call in found(tmp_path, source)] == [("ask", "eng/mod.py:5")]


def test_a_file_that_does_not_parse_is_passed_over(tmp_path: Path) -> None:
    """A template or a file for another Python has no uses."""
    assert found(tmp_path, "{{ current_platform.ask() }} {% if %}\n") == []


def test_parameters_can_hold_the_platform(tmp_path: Path) -> None:
    """An engine that passes its platform on is scanned by the parameter's name."""
    source = "def f(platform):\n    platform.ask()\n"
    assert [one.member for one in found(tmp_path, source, parameters=frozenset({"platform"}))] == ["ask"]


def test_the_base_asks_itself(tmp_path: Path) -> None:
    """What the base class of platforms asks of `cls` and `self` counts; other classes' own do not."""
    source = """\
        class Pair:
            def f(self): return self.other()
        class Platform:
            @classmethod
            def f(cls): return cls.ask(device_id=1)
        """
    (call,) = found(tmp_path, source, base_classes={"mod.py": ("Platform",)})
    assert (call.member, call.via, call.keywords) == ("ask", "class", ("device_id",))


def test_skipped_folders_and_edited_files(tmp_path: Path) -> None:
    """A skipped prefix is not read; a file that changed is read again."""
    assert found(tmp_path, "current_platform.ask()\n", skip=("mod",)) == []
    assert [one.member for one in found(tmp_path, "current_platform.ask()\n")] == ["ask"]
    assert [one.member for one in found(tmp_path, "current_platform.other_one()\n")] == ["other_one"]


def test_common_places_are_the_callers_choice(tmp_path: Path) -> None:
    """`common` gets the file and the function, and the common uses come first by member."""
    source = (
        "def a():\n    current_platform.ask()\nclass B:\n    def c(self):\n        current_platform.ask()\n"
    )
    calls = found(tmp_path, source, common=lambda file, function: (file, function) == ("eng/mod.py", "B.c"))
    assert [call.common for call in by_member(calls)["ask"]] == [True, False]


def test_requirements_are_asked_of_the_platform() -> None:
    """Alternatives, negation and attribute values; what cannot be answered counts as possible."""
    platform = SimpleNamespace(is_cuda=lambda: False, is_rocm=lambda: True, device_type="cpu")
    assert applies(("is_cuda|is_rocm", "!is_cuda", "device_type=cpu"), platform)
    assert not applies(("is_cuda",), platform)
    assert not applies(("device_type=xpu",), platform)
    assert applies(("is_unknown",), platform)


@pytest.mark.parametrize(
    "asks",
    [
        'sig = inspect.signature(current_platform.pick)\nif "old" in sig.parameters:\n',
        'if "old" in inspect.signature(current_platform.pick).parameters:\n',
        'def f():\n  from inspect import signature\n  if "old" in signature(current_platform.pick).parameters:\n',
    ],
)
def test_a_call_for_older_overrides_applies_to_those_alone(tmp_path: Path, asks: str) -> None:
    """An engine that looks for a parameter first calls an override with it one way and others another way."""
    source = asks + "    current_platform.pick(1, 2)\n" + "  " * ("def" in asks) + "else:\n"
    calls = found(tmp_path, source + "    current_platform.pick(1)\n")
    shapes = {call.positional: call.requires for call in calls if not call.is_read}
    older, newer = SimpleNamespace(pick=lambda old, new: old), SimpleNamespace(pick=lambda new: new)
    assert [number for number, asked in shapes.items() if applies(asked, older)] == [2]
    assert [number for number, asked in shapes.items() if applies(asked, newer)] == [1]


def test_an_absent_name_is_the_other_side(tmp_path: Path) -> None:
    """`not in` puts what follows under the opposite."""
    source = 'if current_platform.device_type not in ("cpu", "xpu"):\n    current_platform.pick(1)\n'
    pick = next(call for call in found(tmp_path, source) if call.member == "pick")
    assert not applies(pick.requires, SimpleNamespace(device_type="cpu"))
    assert applies(pick.requires, SimpleNamespace(device_type="chip"))


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        (
            (
                "class A:\n    def f(self):\n        self.device_type = current_platform.device_type\n"
                '        if self.device_type == "cpu":\n            current_platform.pick()\n'
            ),
            "device_type=cpu",
        ),
        (
            (
                "def ready():\n    if not current_platform.is_cuda():\n        return False\n    return True\n"
                "def f():\n    if not ready():\n        return\n    current_platform.pick()\n"
            ),
            "is_cuda",
        ),
    ],
    ids=["a field with the platform's device type", "a function that says no to others"],
)
def test_a_guard_may_go_by_another_name(tmp_path: Path, source: str, asks: str) -> None:
    """What guards a call may be kept in a field, or stand in a function of the module."""
    pick = next(call for call in found(tmp_path, source) if call.member == "pick")
    assert pick.requires == (asks,)


def test_a_folder_for_one_vendor_asks_for_its_device(tmp_path: Path) -> None:
    """Only on ROCm does an engine come to what it keeps in a folder `amd`."""
    folder = tmp_path / "eng" / "models" / "amd"
    folder.mkdir(parents=True)
    (folder / "ops.py").write_text(
        "from eng.platforms import current_platform\ncurrent_platform.pick()\n", encoding="utf-8"
    )
    (pick,) = scan(tmp_path / "eng", common=lambda file, function: False)
    assert pick.requires == ("is_rocm",)
