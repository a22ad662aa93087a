"""Where the tree is, and fresh interpreters beside it; shared by the tests of the project itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
PACKAGES = {
    "platform_abc": ROOT / "src" / "platform_abc",
    "platforms": ROOT / "src" / "platforms",
    "reference_model": ROOT / "src" / "reference_model",
    "reference_engine": ROOT / "src" / "reference_engine",
    "conformance": ROOT / "conformance",
}

needs_tree = pytest.mark.skipif(
    not (ROOT / "src").is_dir(), reason="about the source tree, and these tests run outside of it"
)


def python(
    *args: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, exe: str = sys.executable
) -> str:
    """Run an interpreter in safe-path mode and return its output.

    Args:
        env: variables beside those of this process.
        cwd: the folder to run in; None for this one.
        exe: the interpreter.

    Raises:
        AssertionError: it exited with another status than 0; the text has what it printed.
    """
    done = subprocess.run(
        [exe, "-P", *args],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{args} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
