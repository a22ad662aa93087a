"""The pytest entry point: what it does to suites that never ask for the kit, and to those that do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from platform_abc import _shim

if TYPE_CHECKING:
    from tests.conformance.conftest import Vendor

OWN_PLATFORM = """
def pytest_addoption(parser):
    parser.addoption("--platform", default="none", choices=["none", "linux"])
"""
OWN_TEST = """
def test_own(request):
    assert request.config.getoption("--platform") in ("none", "linux")
"""


@pytest.fixture
def vendor(vendor: Vendor) -> Vendor:
    """A vendor whose runs have every installed plugin, as runs of users do."""
    return attrs.evolve(vendor, autoload=True)


def test_the_kit_is_not_imported_unless_addressed(vendor: Vendor) -> None:
    """A suite of its own runs without one module of the kit."""
    vendor.write("test_own.py", "import sys\ndef test(): assert 'conformance' not in sys.modules")
    ran = vendor.pytest("test_own.py")
    assert ran.code == 0, ran.out
    assert "conformance:" not in ran.out


def test_the_shim_imports_nothing_heavy() -> None:
    """The console script and the entry point load no torch, no pytest, no typer and no kit."""
    heavy = "('torch', 'pytest', 'typer', 'rich', 'conformance', 'platforms', 'attrs')"
    code = f"import sys, platform_abc._shim; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_suite_with_its_own_platform_stays_green(vendor: Vendor) -> None:
    """A conftest that defines `--platform` keeps it, with its own choices, when the kit is not used."""
    vendor.write("conftest.py", OWN_PLATFORM)
    vendor.write("test_own.py", OWN_TEST)
    ran = vendor.pytest("test_own.py", "--platform=linux")
    assert ran.code == 0, ran.out
    assert "1 passed" in ran.out


def test_only_the_prefixed_spelling_reaches_the_kit_beside_a_suites_own(vendor: Vendor) -> None:
    """With the kit in use the conftest keeps `--platform`; the prefixed option works and a line says so."""
    vendor.write("conftest.py", OWN_PLATFORM)
    vendor.write("test_own.py", OWN_TEST)
    ran = vendor.kit(
        "test_own.py", "--platform=linux", "--conformance-platform=acme:AcmePlatform", platform=None
    )
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert "the kit listens to --conformance-platform only" in ran.out
    lost = vendor.kit("--platform=linux", platform=None)
    assert lost.code == 4, lost.out
    assert "say --conformance-platform" in lost.last


def test_a_failing_test_of_the_suite_keeps_its_exit_status(vendor: Vendor) -> None:
    """A conformant platform does not turn the user's own red test green."""
    vendor.write("test_own.py", "def test_own(): assert 0")
    ran = vendor.kit("test_own.py")
    assert (ran.code, ran.verdict) == (1, "conformant"), ran.out


def test_both_spellings_must_agree(vendor: Vendor) -> None:
    """Two different platforms in one command are refused; twice the same is one."""
    assert vendor.kit("--conformance-platform=acme:AcmePlatform").code == 0
    ran = vendor.kit("--conformance-platform=acme:Other")
    assert ran.code == 4, ran.out
    assert "differ; give one" in ran.last


def test_a_folder_conformance_of_the_user_is_told_in_one_line(vendor: Vendor) -> None:
    """A package `conformance` that comes first on the import path: one line, exit 4, no traceback."""
    vendor.write("conformance/__init__.py", "")
    vendor.write("conformance/test_mine.py", "def test_mine(): pass")
    ran = vendor.kit()
    assert ran.code == 4, ran.out
    assert ran.last.startswith(f"ERROR: {vendor.folder}/conformance hides the package conformance")
    assert "Traceback" not in ran.out


def test_a_suite_in_a_folder_conformance_runs_as_before(vendor: Vendor) -> None:
    """The user's own `--pyargs conformance` without a word to the kit stays theirs; the header says so."""
    vendor.write("conformance/__init__.py", "")
    vendor.write("conformance/test_mine.py", "def test_mine(): pass")
    for args in (["--pyargs", "conformance"], ["conformance"]):
        ran = vendor.pytest(*args)
        assert ran.code == 0, ran.out
        assert "1 passed" in ran.out


def test_a_folder_conformance_that_hides_nothing_is_only_mentioned(vendor: Vendor) -> None:
    """A plain folder of that name, no package, beside the run: a line, and the kit runs."""
    vendor.write("conformance/notes.txt", "")
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert f"conformance: {vendor.folder}/conformance is not part of the kit" in ran.out


def test_a_file_platforms_beside_the_run_is_told_in_one_line(vendor: Vendor) -> None:
    """`platforms.py` in the folder hides our package: one line, exit 4."""
    vendor.write("platforms.py", "")
    ran = vendor.kit()
    assert ran.code == 4, ran.out
    assert "platforms.py hides the package platforms of platform-abc" in ran.last
    assert "Traceback" not in ran.out


def test_the_kit_works_without_autoload(vendor: Vendor) -> None:
    """`-p platform_abc._shim` is enough where plugins are not loaded by themselves."""
    ran = vendor.kit("-p", "platform_abc._shim", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out


def test_the_plugin_may_be_named_beside_autoload(vendor: Vendor) -> None:
    """`-p platform_abc._shim` where plugins are loaded by themselves registers it once."""
    ran = vendor.kit("-p", "platform_abc._shim")
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out


def test_help_lists_every_option(vendor: Vendor) -> None:
    """`pytest --pyargs conformance --help` names every option, `--platform` included."""
    ran = vendor.pytest("--pyargs", "conformance", "--help")
    assert ran.code == 0
    for name, *_ in _shim.OPTIONS:
        assert f"--conformance-{name}" in ran.out
    assert "--platform" in ran.out


def test_an_option_without_the_kit_is_told(vendor: Vendor) -> None:
    """`--conformance-…` without `--pyargs conformance` runs the suite and says what is missing."""
    vendor.write("test_own.py", "def test_own(): pass")
    ran = vendor.pytest("test_own.py", "--conformance-platform=acme:AcmePlatform")
    assert ran.code == 0, ran.out
    assert (
        "conformance: --conformance-platform is given, but the kit is not; add --pyargs conformance"
        in ran.out
    )


def test_options_may_stand_in_the_ini_file(vendor: Vendor) -> None:
    """`addopts` may name the platform; a suite run without the kit hears nothing of it."""
    vendor.write("pytest.ini", "[pytest]\naddopts = --conformance-platform=acme:AcmePlatform\n")
    vendor.write("test_own.py", "def test_own(): pass")
    ran = vendor.pytest("test_own.py")
    assert ran.code == 0, ran.out
    assert "conformance:" not in ran.out
    assert vendor.kit(platform=None).code == 0


@pytest.mark.parametrize("missing", ["pytest", "typer"])
def test_a_missing_extra_is_one_line(tmp_path: Path, missing: str) -> None:
    """The command without the kit's libraries names the extra and exits with 4."""
    code = f"import sys; sys.modules[{missing!r}] = None; import platform_abc._shim as s; sys.exit(s.main())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert f"needs {missing}" in done.stderr
    assert "pip install 'platform-abc[conformance]'" in done.stderr


def test_addressing_goes_by_name_or_by_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit is addressed as a module with `--pyargs`, or by its own path; a namesake is not it."""
    (tmp_path / "conformance").mkdir()
    monkeypatch.chdir(tmp_path)
    import conformance

    kit = next(iter(conformance.__path__))
    assert _shim.addressed(["conformance"], True)
    assert _shim.addressed(["tests", "conformance.checks"], True)
    assert _shim.addressed([kit], False)
    assert _shim.addressed([f"{kit}/"], False)
    assert not _shim.addressed(["conformance"], False)
    assert not _shim.addressed(["tests/conformance", "conformances"], True)
    assert not _shim.addressed([], True)
