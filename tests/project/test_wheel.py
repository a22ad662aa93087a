"""What users download: the wheel and the sdist hold all four packages, their data, and nothing of the tree beside."""

from __future__ import annotations

import configparser
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.project.trees import PACKAGES, ROOT, needs_tree

pytestmark = [pytest.mark.install, needs_tree]

EXTRAS = {"torch", "conformance", "cuda", "rocm", "triton", "ray", "all", "dev"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with a wheel that was built from the sdist, and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """The wheel, open."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as opened:
        yield opened


def _metadata(wheel: zipfile.ZipFile, name: str) -> str:
    return wheel.read(next(n for n in wheel.namelist() if n.endswith(f".dist-info/{name}"))).decode()


def _files(package: str) -> set[str]:
    """The files of a package in the tree, by the names that they have in a wheel."""
    folder = PACKAGES[package]
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{package}/{path.relative_to(folder).as_posix()}" for path in found}


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_holds_every_file_of_the_package(wheel, package):
    """Modules, `py.typed` and data files are all there; a data file that is left out breaks users only."""
    names = set(wheel.namelist())
    assert f"{package}/py.typed" in names
    assert _files(package) - names == set()


def test_wheel_holds_nothing_else(wheel):
    """No tests, docs or examples land in anybody's site-packages."""
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert tops - set(PACKAGES) == {next(t for t in tops if t.endswith(".dist-info"))}


def test_wheel_declares_its_entry_points(wheel):
    """The console script and the pytest plugin both lead to the shim."""
    read = configparser.ConfigParser()
    read.read_string(_metadata(wheel, "entry_points.txt"))
    assert read["console_scripts"]["platform-abc"] == "platform_abc._shim:main"
    assert set(read["pytest11"].values()) == {"platform_abc._shim"}


def test_wheel_declares_a_small_core_and_the_documented_extras(wheel):
    """Without extras two small packages are needed; the extras are those of the README."""
    lines = _metadata(wheel, "METADATA").splitlines()
    core = [x for x in lines if x.startswith("Requires-Dist:") and "extra ==" not in x]
    assert {x.split()[1].partition(">")[0].partition("=")[0] for x in core} == {"attrs", "typing-extensions"}
    assert {x.split()[1] for x in lines if x.startswith("Provides-Extra:")} == EXTRAS


def test_sdist_holds_packages_tests_and_what_they_read(built):
    """Distributors build and test from the sdist."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    for package, folder in PACKAGES.items():
        prefix = folder.relative_to(ROOT).as_posix()
        assert {f"{prefix}/{n.partition('/')[2]}" for n in _files(package)} - names == set()
    assert {"LICENSE", "README.md", "CHANGELOG.md", "tests/conftest.py", "docs/kit.md", "tox.ini"} <= names
