"""Runs the kit on the zoo's platforms in one process that forks, so that torch is imported once.

`python -m tests.mutants.zoo` prints one line of JSON for each platform that it reads from stdin.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.answers import from_json, to_json
from conformance.context import CheckContext
from conformance.engines import adapter
from conformance.engines.base import Adapter
from conformance.isolation import Opening
from conformance.isolation.client import Host, Ran
from conformance.isolation.forked import Forker
from conformance.isolation.fresh import Starter
from conformance.model import Check, CheckResult
from conformance.perform import perform
from conformance.registry import all_checks
from conformance.runner import Runner
from conformance.target import parse

SITES: Final = Path(__file__).with_name("sites")
ROOT: Final = Path(__file__).parents[2]
_ASK_ONLY: Final = frozenset({"loading", "identity", "members", "pickers", "answers", "fallback", "device"})
"""Families whose checks change nothing; a real run isolates them too, here it would only take time."""

_FRESH: Final = frozenset({"spawn.worker-agrees", "detection.detector", "detection.resolves"})


@attrs.define
class ForkedZoo:
    """What runs single checks of one platform, each in a fork of this process."""

    name: str
    site: str
    adapter: Adapter
    forker: Forker
    starter: Starter
    checks: Mapping[str, Check]
    importable_by_name: bool = True
    _known: dict[str, Ran] = attrs.field(factory=dict[str, Ran])

    def run(self, check_id: str) -> Ran:
        """Run one check; those of a family that only asks share one fork."""
        if check_id not in self._known:
            self._known.update(self._fork(self._group(check_id)))
        return self._known[check_id]

    def _group(self, check_id: str) -> list[str]:
        check = self.checks[check_id]
        family = check.func.__module__
        if check.where == "fresh" or family.rpartition(".")[2] not in _ASK_ONLY:
            return [check_id]
        return [
            name
            for name, one in self.checks.items()
            if one.func.__module__ == family and one.where != "fresh"
        ]

    def _fork(self, names: Sequence[str]) -> dict[str, Ran]:
        def work(extend: Any) -> dict[str, Any]:
            starter = attrs.evolve(self.starter, extend=extend)
            if self.site:
                folder = str(SITES / self.site)
                sys.path.insert(0, folder)
                starter = attrs.evolve(starter, path=[folder, *starter.path])
            cls = load(self.name)
            return {
                name: to_json(perform(self.checks[name], CheckContext(cls, self.adapter, starter.fresh)))
                for name in names
            }

        ended = self.forker.run(work, 120.0)
        if ended.answer is None:
            return {name: Ran(None, ended.died, ended.output) for name in names}
        return {name: Ran(from_json(ended.answer[name]), None, ended.output) for name in names}


def full_name(name: str) -> str:
    """The whole `module:Class` of a name in the table."""
    module, _, cls = name.partition(":")
    return name if module.startswith("chip_") else f"tests.mutants.{module}:{cls}"


def load(name: str) -> type:
    """Import a platform of the zoo, without the warnings that the base gives at its definition."""
    module, _, cls = full_name(name).partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(importlib.import_module(module), cls)
    assert isinstance(found, type)
    return found


def judge(
    name: str, site: str, wanted: Sequence[str], engine: Adapter, scratch: Path
) -> Iterator[CheckResult]:
    """Run every check on one platform, those that start interpreters only where they are asked for.

    Args:
        name: as in the table.
        site: the folder with its package; empty if it has none.
        wanted: the checks that the table names for it.
    """
    checks = all_checks()
    starter = Starter([*sys.path], dict(os.environ), scratch, 120.0)
    if not site:
        load(name)  # once here, for all forks
    source = ForkedZoo(name, site, engine, Forker(scratch), starter, checks)
    runner = Runner(checks, source, Opening("ready", location=name))
    for check_id in checks:
        if check_id not in _FRESH or check_id in wanted:
            yield runner.result(check_id)


def judge_in_host(name: str) -> list[CheckResult]:
    """Run every cheap check on a platform whose import needs a process of its own."""
    checks = all_checks()
    with contextlib.closing(Host(parse(full_name(name)))) as host:
        runner = Runner(checks, host, host.open())
        return [runner.result(check_id) for check_id in checks if check_id not in _FRESH]


def serve(requests: Sequence[Mapping[str, Any]]) -> None:
    """Judge each platform that is asked for, and print what came of each check as a line of JSON."""
    engine = adapter("native")
    engine.prepare()
    with tempfile.TemporaryDirectory() as folder:
        for request in requests:
            if request["host"]:
                results = judge_in_host(request["name"])
            else:
                results = list(
                    judge(request["name"], request["site"], request["wanted"], engine, Path(folder))
                )
            answer = {
                "key": request["key"],
                "results": {
                    one.check.id: [
                        one.outcome.value,
                        one.reason,
                        [attrs.asdict(finding) for finding in one.findings],
                        one.traceback,
                    ]
                    for one in results
                },
            }
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(json.load(sys.stdin))
