"""`current_platform` is chosen on the first read, once, and by nothing else."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import platforms
from tests.platform_abc.fake_distributions import CPU_TORCH, distribution, fresh, platform_plugin

RESOLVED = "import platforms; resolved = 'current_platform' in vars(platforms)"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a CPU build of torch, by its metadata."""
    distribution(tmp_path, "torch", CPU_TORCH)
    return tmp_path


def answer(site: Path, code: str, **variables: str) -> object:
    """Run code that prints one JSON value last, and return that value."""
    ended = fresh(site, code, **variables)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "statement",
    [
        "import platform_abc",
        "import platforms",
        "import reference_engine",
        "import conformance",
        "import platform_abc._shim",
        "import platforms.detectors",
        "import platforms._resolver",
        "import platforms.cpu",
        "from platforms import *",
        "import inspect, platforms; inspect.getmembers(platforms); dir(platforms)",
        "import platforms; getattr(platforms, '__wrapped__', None); repr(platforms); platforms.__path__",
    ],
)
def test_importing_resolves_nothing(site: Path, statement: str) -> None:
    """No detector runs: one that would leave a mark does not."""
    platform_plugin(site, "npu", "open('asked', 'w').close()\ndef register(): return None\n")
    assert answer(site, f"{statement}\n{RESOLVED}\nprint('true' if resolved else 'false')") is False
    assert not (site / "asked").exists()


def test_the_first_read_sets_the_global(site: Path) -> None:
    """Later reads find it in the module's dictionary and get the same object."""
    code = """
        import json, platforms
        before = "current_platform" in vars(platforms)
        from platforms import current_platform
        print(json.dumps([before, vars(platforms)["current_platform"] is current_platform,
            platforms.current_platform is current_platform, type(current_platform).__qualname__]))
    """
    found = answer(site, code)
    assert found[:3] == [False, True, True]  # type: ignore[index]
    assert found[3] in ("CpuPlatform", "ZenCpuPlatform")  # type: ignore[index]


def test_resolution_imports_no_torch_and_is_quick(site: Path) -> None:
    """Without accelerators; processor time, since other processes may have the machine."""
    code = """
        import json, sys, time
        started = time.process_time()
        from platforms import current_platform
        print(json.dumps(["torch" in sys.modules, time.process_time() - started]))
    """
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(site / "compiled")}
    answer(site, code, **compiled)  # writes the byte code
    found = [answer(site, code, **compiled) for _ in range(3)]
    assert [torch_loaded for torch_loaded, _ in found] == [False] * 3  # type: ignore[misc]
    assert min(seconds for _, seconds in found) < 0.2  # type: ignore[misc]


def test_it_is_not_in_all_and_hidden_from_no_reader() -> None:
    """A star import must not resolve."""
    assert "current_platform" not in platforms.__all__
    assert sorted(platforms.__all__) == [
        "load_general_plugins",
        "reset_current_platform",
        "resolution_report",
        "resolved_platform",
    ]


def test_who_asks_whether_there_is_a_platform_chooses_none(site: Path) -> None:
    """None before the first read, the object after it."""
    code = """
        import json, platforms
        before = platforms.resolved_platform()
        from platforms import current_platform
        print(json.dumps([before, platforms.resolved_platform() is current_platform]))
    """
    assert answer(site, code) == [None, True]


def test_another_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="module 'platforms' has no attribute 'curent_platform'"):
        _ = platforms.curent_platform  # type: ignore[attr-defined]


def test_the_module_getattr_is_hidden_from_checkers() -> None:
    """A visible one would make every typo type-check."""
    tree = ast.parse(Path(platforms.__file__).read_text(encoding="utf-8"))
    assert not [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    ]
    (guard,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(guard.test) == "TYPE_CHECKING"
    assert [node.name for node in guard.orelse if isinstance(node, ast.FunctionDef)] == ["__getattr__"]


def test_an_error_keeps_its_type_through_the_import(site: Path) -> None:
    """Python turns an AttributeError into "cannot import name"; ours stays what it is."""
    for name in ("zeta", "alpha"):
        platform_plugin(site, name, "def register(): return 'a.B'\n")
    code = """
        import json
        try:
            from platforms import current_platform
        except Exception as error:
            print(json.dumps([type(error).__name__, isinstance(error, RuntimeError), str(error), error.report.error]))
    """
    kind, is_runtime, text, reported = answer(site, code)  # type: ignore[misc]
    assert (kind, is_runtime) == ("ResolutionError", True)
    assert "alpha (alpha-dist 1.0), zeta (zeta-dist 1.0)" in text
    assert reported == text


def test_reset_chooses_again(site: Path) -> None:
    """For tests: the environment is read anew, the old object stays with who holds it."""
    code = """
        import json, os, platforms
        first = platforms.current_platform
        platforms.reset_current_platform()
        gone = "current_platform" not in vars(platforms)
        os.environ["PLATFORM_ABC_TARGET_DEVICE"] = "cpu"
        second = platforms.current_platform
        print(json.dumps([gone, first is second, platforms.resolution_report().why]))
    """
    gone, same, why = answer(site, code)  # type: ignore[misc]
    assert (gone, same) == (True, False)
    assert "'cpu', which decides at once" in why


def test_the_report_names_the_line_that_read_first(site: Path) -> None:
    """To find what resolves too early."""
    (site / "early.py").write_text(
        "def load():\n    from platforms import current_platform\n    return current_platform\n"
    )
    code = """
        import json, early
        early.load()
        import platforms
        print(json.dumps(platforms.resolution_report().first_read))
    """
    frames = answer(site, code)
    assert isinstance(frames, list)
    assert frames[-1].endswith("early.py:2 in load")


def test_a_platform_put_in_place_stays(site: Path) -> None:
    """General plugins, which want a platform first, replace none that a test has put there."""
    code = """
        import json, platforms
        put = object()
        vars(platforms)["current_platform"] = put
        platforms.load_general_plugins()
        print(json.dumps(platforms.current_platform is put))
    """
    assert answer(site, code) is True


def test_general_plugins_come_after_the_platform(site: Path) -> None:
    """Loading them resolves first, so they cannot change which platform it is."""
    distribution(
        site,
        "gen",
        entry_points={"platform_abc.general_plugins": {"gen": "gen_plugin:go"}},
        modules={
            "gen_plugin.py": "import platforms\n"
            "def go(): platforms.seen = type(vars(platforms)['current_platform']).__name__\n"
        },
    )
    code = "import json, platforms\nplatforms.load_general_plugins()\nplatforms.load_general_plugins()\n"
    assert str(answer(site, code + "print(json.dumps(platforms.seen))")).endswith("CpuPlatform")
