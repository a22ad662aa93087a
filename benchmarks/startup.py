"""Import time, modules loaded, and the first resolution, each in fresh interpreters, in turns."""

from __future__ import annotations

import importlib.util
import re
import statistics
import subprocess
import sys
from typing import Any, Final

from benchmarks.children import answer, environment
from benchmarks.model import Bound, Row

REPEATS: Final = 5
OURS: Final = ("platform_abc", "platforms", "reference_model", "reference_engine", "conformance")

_IMPORT: Final = """
import sys, time
before = len(sys.modules)
started = time.perf_counter()
import {module}
took = time.perf_counter() - started
answer({{"ms": took * 1e3, "modules": len(sys.modules) - before, "torch": "torch" in sys.modules}})
"""
_RESOLVE: Final = """
import sys, time
began = time.perf_counter()
import {module} as platforms
started = time.perf_counter()
platform = platforms.current_platform
ended = time.perf_counter()
answer({{
    "ms": (ended - started) * 1e3,
    "total_ms": (ended - began) * 1e3,
    "torch": "torch" in sys.modules,
    "platform": type(platform).__qualname__,
}})
"""


def _in_turns(program: str, modules: list[str], repeats: int) -> list[list[dict[str, Any]]]:
    """Run the program for each module in turns; the first round only warms caches and is dropped."""
    told: list[list[dict[str, Any]]] = [[] for _ in modules]
    for round_ in range(repeats + 1):
        for index, module in enumerate(modules):
            one = answer(program.format(module=module))
            if round_:
                told[index].append(one)
    return told


def _best(told: list[dict[str, Any]], key: str) -> float:
    return float(min(one[key] for one in told))


def self_time_ms(module: str, repeats: int = REPEATS) -> float:
    """The self time of our own modules when `module` is imported, by `-X importtime`: best run, in ms."""
    sums = []
    for _ in range(repeats + 1):
        done = subprocess.run(
            [sys.executable, "-P", "-X", "importtime", "-c", f"import {module}"],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        lines = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", done.stderr, re.MULTILINE)
        sums.append(sum(int(us) for us, name in lines if name.partition(".")[0] in OURS) / 1e3)
    return min(sums[1:])


def measure(repeats: int = REPEATS) -> list[Row]:
    """Measure ours, and vLLM's where it is installed."""
    vllm = importlib.util.find_spec("vllm") is not None
    rows = [
        Row(
            "Start",
            "`import platform_abc`, self time of our own modules",
            "ms",
            self_time_ms("platform_abc", repeats),
            bound=Bound("value", 15.0),
        )
    ]
    for ours in ("platform_abc", "platforms"):
        told = _in_turns(_IMPORT, [ours, *(["vllm.platforms"] if vllm else [])], repeats)
        torch = "torch is not loaded" if not any(one["torch"] for one in told[0]) else "TORCH IS LOADED"
        theirs = told[1] if vllm else None
        rows.append(
            Row(
                "Start",
                f"`import {ours}`, wall time",
                "ms",
                _best(told[0], "ms"),
                _best(theirs, "ms") if theirs else None,
                versus="vLLM, `import vllm.platforms`",
                note=torch,
            )
        )
        rows.append(
            Row(
                "Start",
                f"`import {ours}`, modules loaded",
                "modules",
                told[0][0]["modules"],
                float(theirs[0]["modules"]) if theirs else None,
                versus="vLLM, `import vllm.platforms`",
            )
        )
    told = _in_turns(_RESOLVE, ["platforms", *(["vllm.platforms"] if vllm else [])], repeats)
    names = " and ".join(f"`{side[0]['platform']}`" for side in told)
    torch = "no torch" if not any(one["torch"] for one in told[0]) else "TORCH IS LOADED"
    rows += [
        Row(
            "Start",
            "first read of `current_platform`",
            "ms",
            _best(told[0], "ms"),
            _best(told[1], "ms") if vllm else None,
            bound=Bound("value", 100.0),
            note=f"resolves to {names}; {torch} in ours; median {statistics.median(o['ms'] for o in told[0]):.1f} ms",
        ),
        Row(
            "Start",
            "import and first read together",
            "ms",
            _best(told[0], "total_ms"),
            _best(told[1], "total_ms") if vllm else None,
        ),
    ]
    return rows
