"""Attribute reads on the resolved platforms, ours and vLLM's, interleaved in one process.

`python -m benchmarks.reads` prints JSON; `benchmarks.__main__` runs it as a child, so that what the
imports below load disturbs no other measurement.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.model import Bound, Row

UNROLLED: Final = 50
"""Reads a loop iteration, so that the loop itself is lost in the noise."""
LOOPS: Final = 400
REPEATS: Final = 200
MISSING: Final = "no_such_name_anywhere"

CASES: Final = {
    "an identity attribute": "p.device_name",
    "a predicate": "p.is_cpu()",
    "a classmethod": "p.opaque_attention_op()",
    "a declared fallback name": "p.synchronize",
    "an undeclared fallback name": "p.{undeclared}",
    "a missing name": f"p.{MISSING}",
    "module.current_platform": "m.current_platform",
}
BOUNDS: Final = {"a declared fallback name": 0.4, "module.current_platform": 0.1}
OTHERWISE: Final = 1.15


def _loop(expression: str) -> Callable[[Any, Any], float]:
    """Compile a function of a platform and its module that times LOOPS * UNROLLED reads, in seconds."""
    body = "\n        ".join([expression] * UNROLLED)
    source = (
        "def timed(p, m, clock, loops):\n"
        "    started = clock()\n"
        f"    for _ in range(loops):\n        {body}\n"
        "    return clock() - started\n"
    )
    names: dict[str, Any] = {}
    exec(compile(source, f"<{expression}>", "exec"), names)
    timed = names["timed"]
    return lambda platform, module: timed(platform, module, time.perf_counter, LOOPS)


def _undeclared(ours: object, theirs: object | None) -> str:
    """A name of `torch.cpu` that neither class defines, so that both must fall back for it."""
    import torch

    for name in sorted(vars(torch.cpu)):
        taken = [hasattr(type(one), name) for one in (ours, theirs) if one is not None]
        own = str(getattr(getattr(torch.cpu, name), "__module__", "")).startswith("torch.cpu")
        if own and not name.startswith("_") and not any(taken):
            return name
    raise LookupError("torch.cpu has no name that the platforms leave to the fallback")


def measure() -> list[dict[str, Any]]:
    """Time every case on both sides, in turns, and keep each side's fastest; ns a read."""
    logging.disable(logging.WARNING)
    sides: list[tuple[Any, Any]] = [(m := importlib.import_module("platforms"), m.current_platform)]
    if importlib.util.find_spec("vllm") is not None:
        sides.append((m := importlib.import_module("vllm.platforms"), m.current_platform))
    undeclared = _undeclared(sides[0][1], sides[1][1] if len(sides) > 1 else None)
    told = []
    for what, template in CASES.items():
        expression = template.format(undeclared=undeclared)
        # One function a side: the interpreter specialises a read for the type that it has met.
        timers = [_loop(expression) for _ in sides]
        best = [float("inf")] * len(sides)
        for _ in range(REPEATS):
            for index, (module, platform) in enumerate(sides):
                best[index] = min(best[index], timers[index](platform, module))
        shown = (
            expression.replace("p.", "platform.", 1)
            if expression[0] == "p"
            else expression.replace("m.", "platforms.", 1)
        )
        told.append({"what": what, "shown": shown, "ns": [b / LOOPS / UNROLLED * 1e9 for b in best]})
    return told


def rows(told: list[dict[str, Any]]) -> list[Row]:
    """Turn what `measure` told into rows."""
    return [
        Row(
            section="Reads",
            what=f"{one['what']}, `{one['shown']}`",
            unit="ns",
            ours=one["ns"][0],
            theirs=one["ns"][1] if len(one["ns"]) > 1 else None,
            bound=Bound("ratio", BOUNDS.get(one["what"], OTHERWISE)),
        )
        for one in told
    ]


if __name__ == "__main__":
    json.dump(measure(), sys.stdout)
