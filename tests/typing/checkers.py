"""Runs mypy and pyright over a file of right and wrong uses, and compares the lines of their errors with marks.

A line that ends in `# E: mp` must be an error in both checkers, `# E: m` in mypy only, `# E: p` in pyright only;
every other line must be clean.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
Checker = Literal["mypy", "pyright"]
Lines = Mapping[int, str]
"""Line number -> the message of the error there."""

_MARK: Final = re.compile(r"#\s*E:\s*([mp]+)\s*$")
_LETTER: Final[Mapping[Checker, str]] = {"mypy": "m", "pyright": "p"}


def expected(path: Path, checker: Checker) -> set[int]:
    """Return the lines that are marked as errors of a checker."""
    return {
        number
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (mark := _MARK.search(line)) and _LETTER[checker] in mark[1]
    }


def run_mypy(paths: list[Path], cache: Path, *options: str) -> Mapping[Path, Lines]:
    """Return the errors of `mypy --strict` in files, by file and line.

    Args:
        paths: the files.
        cache: a folder to keep results in.
        *options: more options.
    """
    pytest.importorskip("mypy", reason="needs mypy: pip install 'platform-abc[dev]'")
    command = [sys.executable, "-m", "mypy", "--output", "json", "--cache-dir", str(cache), *options]
    done = _run([*command, *map(str, paths)])
    errors: dict[Path, dict[int, str]] = {path: {} for path in paths}
    for line in done.stdout.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        if found["severity"] == "error":
            file = (ROOT / found["file"]).resolve()
            errors.setdefault(file, {})[found["line"]] = f"{found['message']} [{found['code']}]"
    if done.returncode not in {0, 1}:
        raise AssertionError(f"mypy did not run:\n{done.stdout}\n{done.stderr}")
    return errors


def run_pyright(paths: list[Path]) -> Mapping[Path, Lines]:
    """Return the errors of pyright in files, in its strict mode, by file and line.

    Args:
        paths: the files.
    """
    command = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if command is None:
        pytest.skip("needs pyright: pip install 'platform-abc[dev]'")
    done = _run([command, "--outputjson", "--pythonpath", sys.executable, *map(str, paths)])
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"pyright did not run:\n{done.stdout}\n{done.stderr}") from None
    errors: dict[Path, dict[int, str]] = {path: {} for path in paths}
    for one in found["generalDiagnostics"]:
        if one["severity"] == "error":
            line = one["range"]["start"]["line"] + 1
            errors.setdefault(Path(one["file"]).resolve(), {})[line] = one["message"]
    return errors


def differences(found: Mapping[Path, Lines], checker: Checker) -> list[str]:
    """Return one line for each error that is missing or not expected; empty if all is as marked."""
    lines: list[str] = []
    for path, errors in found.items():
        marked = expected(path, checker)
        lines += [f"{path.name}:{line}: {checker} finds no error" for line in sorted(marked - errors.keys())]
        lines += [
            f"{path.name}:{line}: {checker} finds an error: {errors[line]}"
            for line in sorted(errors.keys() - marked)
        ]
    return lines


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
