"""The platform classes of a real vLLM satisfy `PlatformLike` of vLLM's types, with no cast and no ignore."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.typing import checkers

FILE: Final = Path(__file__).parent / "vllm_real_classes.py"

# Found, not imported: an import would choose vLLM's platform in this process.
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="needs a real vLLM: pip install vllm"
    ),
]


def test_no_cast_and_no_ignore() -> None:
    """The file does not silence a checker."""
    assert not re.search(r"\bcast\b\(|type: ignore|pyright: ignore", FILE.read_text(encoding="utf-8"))


def test_mypy_accepts_the_real_classes(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """mypy strict accepts every real class, and refuses each control with one wrong type."""
    # A cache of its own: it holds the whole of vLLM. `silent`, because errors inside vLLM are vLLM's.
    kept = getattr(pytestconfig, "cache", None)
    cache = kept.mkdir("mypy_vllm") if kept else tmp_path
    found = checkers.run_mypy([FILE], cache, "--follow-imports", "silent")
    assert checkers.differences(found, "mypy") == []


def test_pyright_accepts_the_real_classes() -> None:
    """Pyright strict accepts every real class, and refuses each control with one wrong type."""
    assert checkers.differences(checkers.run_pyright([FILE]), "pyright") == []


_PRESENT: Final = """
import json
from vllm.platforms.interface import Platform
from platform_abc.members import MEMBERS

def lacks(name):
    return not any(name in vars(base) or name in vars(base).get("__annotations__", {}) for base in Platform.__mro__)

print("RESULT", json.dumps([one.name for one in MEMBERS.values() if one.version == 1 and lacks(one.name)]))
"""


def test_every_member_of_the_protocols_exists() -> None:
    """Each member of the frozen Protocols is defined by vLLM's base class itself, not answered by its fallback."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PRESENT], capture_output=True, text=True, check=False, timeout=300
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert results == ["RESULT []"], done.stderr
