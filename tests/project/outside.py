"""Build the wheel, install it into a fresh environment, and run the tests from a folder outside the tree.

    python tests/project/outside.py [--work FOLDER] [pytest arguments, after the usual ones]

What the tests import must be what the wheel installed: a plugin stops the run if any package of ours was loaded
from elsewhere. Ends with pytest's status.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests",)
BESIDE = ("examples",)
DEFAULT = [
    "-m",
    "not install and not slow and not vllm and not zoo and not twins and not mutants and not deep",
]

PLUGIN = '''
"""Stop unless every package of ours comes from this environment, and from nowhere in the source tree."""

import importlib
import sysconfig
from pathlib import Path

import pytest

SITE = Path(sysconfig.get_path("purelib")).resolve()


def pytest_sessionstart(session):
    for name in ("platform_abc", "platforms", "reference_model", "reference_engine", "conformance"):
        package = importlib.import_module(name)
        found = Path(package.__file__).resolve()
        if SITE not in found.parents:
            pytest.exit(f"{name} was loaded from {found}, not from the wheel in {SITE}", returncode=3)
        print(f"{name}: {found}")
'''


def _run(*command: str | Path) -> None:
    print("+", *command, flush=True)
    subprocess.run(list(map(str, command)), check=True)


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, help="a new folder to keep; default: a temporary one")
    asked, arguments = parser.parse_known_args()
    if asked.work is None:
        with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
            return check(Path(folder), arguments)
    asked.work.mkdir(parents=True)
    return check(asked.work.resolve(), arguments)


def check(work: Path, arguments: list[str]) -> int:
    """Build, install, copy the tests to `work`, run them there, and return pytest's status."""
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "dist", ROOT)
    wheel = next((work / "dist").glob("*.whl"))
    venv.create(work / "venv", with_pip=True)
    python = work / "venv" / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip")
    _run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints-dev.txt", f"{wheel}[dev]")

    outside = work / "outside"
    for name in (*TESTS, *BESIDE):
        shutil.copytree(ROOT / name, outside / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    # The configuration of pytest, and nothing else of the project.
    shutil.copy(ROOT / "pyproject.toml", outside / "pyproject.toml")
    (outside / "loaded_from_the_wheel.py").write_text(PLUGIN)

    command = [python, "-m", "pytest", "-p", "loaded_from_the_wheel", *DEFAULT, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(outside), "VIRTUAL_ENV": str(work / "venv")}
    print("+", *command, flush=True)
    return subprocess.run(list(map(str, command)), cwd=outside, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
