"""The current folder is left off the import path where only Python has put it there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from platform_abc import _folder
from platform_abc._folder import hiding_files, without_implied_folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, and no PYTHONPATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


@pytest.mark.skipif(sys.flags.safe_path, reason="Python adds no folder with -P")
def test_an_implied_folder_goes(here: Path) -> None:
    """As `python -m` writes it, and as the prompt does."""
    assert without_implied_folder([str(here), "/lib"]) == ["/lib"]
    assert without_implied_folder(["", "/lib"]) == ["/lib"]


def test_another_folder_stays(here: Path) -> None:
    """Also the current one where it is not the first, since Python has not put it there."""
    assert without_implied_folder(["/lib", str(here)]) == ["/lib", str(here)]
    assert without_implied_folder([]) == []


def test_a_folder_that_the_variable_names_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for."""
    monkeypatch.setenv("PYTHONPATH", str(here))
    assert without_implied_folder([str(here), "/lib"]) == [str(here), "/lib"]


def test_the_folder_of_our_packages_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run out of the source folder would lose them."""
    monkeypatch.setattr(_folder, "_HOME", str(here))
    assert without_implied_folder([str(here), "/lib"]) == [str(here), "/lib"]


def test_only_what_would_be_imported_instead_is_listed(here: Path) -> None:
    """Files and packages with the name of a loaded module that is not loaded from there."""
    for name in ("json.py", "platforms.py", "unrelated.py", "typing.txt", "__main__.py", "os.py"):
        (here / name).write_text("")
    (here / "logging").mkdir()
    assert hiding_files() == [str(here / "json.py"), str(here / "platforms.py")]
    (here / "logging" / "__init__.py").write_text("")
    assert str(here / "logging") in hiding_files()


def test_our_own_folder_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the packages are the real ones."""
    monkeypatch.chdir(Path(_folder.__file__).parent.parent)
    assert hiding_files() == []


def test_a_folder_that_is_gone_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only the prompt's entry for it goes."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert hiding_files() == []
    assert without_implied_folder(["/lib"]) == ["/lib"]
