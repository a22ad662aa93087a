"""A process that has vLLM prepared, and answers: `python -m tests.vllm.served`, JSON lines in and out.

A request is `{"probe": name}` for a function of `tests.vllm.probes`, or `{"platform": "zoo:Good", "check": id}`
for a class of a module of `tests.vllm`, with the `limit` in seconds, and `alone` to run the check whatever the
checks that it needs have said. Everything runs in forks, so that one import of the engine serves all.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from conformance.answers import from_json, to_json
from conformance.context import CheckContext
from conformance.engines import adapter
from conformance.engines.base import Adapter
from conformance.isolation import Opening
from conformance.isolation.client import Ran
from conformance.isolation.forked import Ended, Forker
from conformance.isolation.fresh import Starter
from conformance.perform import perform
from conformance.registry import all_checks
from conformance.runner import Runner


@attrs.frozen
class Source:
    """Runs single checks of one platform, each in a fork."""

    cls: type
    adapter: Adapter
    forker: Forker
    starter: Starter
    limit: float
    importable_by_name: bool = True

    def run(self, check_id: str, limit: float | None = None) -> Ran:
        check = all_checks()[check_id]

        def work(extend: Callable[[float], None]) -> dict[str, Any]:
            starter = attrs.evolve(self.starter, extend=extend)
            return to_json(perform(check, CheckContext(self.cls, self.adapter, starter.fresh)))

        ended = self.forker.run(work, limit or self.limit)
        return Ran(from_json(ended.answer) if ended.answer is not None else None, ended.died, ended.output)


def probed(forker: Forker, name: str, engine: Adapter) -> Mapping[str, Any]:
    """The answer of a probe, or how it ended without one."""
    from tests.vllm import probes

    def work(_extend: Callable[[float], None]) -> dict[str, Any]:
        return {"answer": getattr(probes, name)(engine)}

    ended: Ended = forker.run(work, 120.0)
    return ended.answer if ended.answer is not None else {"died": str(ended.died), "output": ended.output}


def load(name: str) -> type:
    """The class that a name of the table stands for."""
    module, _, cls = name.partition(":")
    found = getattr(importlib.import_module(f"tests.vllm.{module}"), cls)
    assert isinstance(found, type)
    return found


def serve(scratch: Path) -> None:
    """Answer until the input ends."""
    engine = adapter("vllm")
    os.environ.update(engine.environment(str(scratch)))
    engine.prepare()
    forker = Forker(scratch)
    starter = Starter([*sys.path], dict(os.environ), scratch, 120.0)
    runners: dict[str, Runner] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "probe" in request:
            answer = probed(forker, request["probe"], engine)
        else:
            name = f"{request['platform']} {request['alone']}"
            if name not in runners:
                source = Source(load(request["platform"]), engine, forker, starter, request["limit"])
                # Without what a check needs, a fault of a cheaper check is left to this one.
                checks = all_checks()
                if request["alone"]:
                    checks = {key: attrs.evolve(one, needs=()) for key, one in checks.items()}
                runners[name] = Runner(checks, source, Opening("ready", engine=engine.name, location=name))
            result = runners[name].result(request["check"])
            answer = {
                "outcome": result.outcome.value,
                "reason": result.reason,
                "traceback": result.traceback,
                "findings": [attrs.asdict(one) for one in result.findings],
            }
        os.write(_ANSWERS, (json.dumps(answer) + "\n").encode())


_ANSWERS = os.dup(1)
"""Where answers go; what anything else prints goes to stderr."""


if __name__ == "__main__":
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        serve(Path(folder))
