"""Runs the kit on the zoo's platforms in one process that forks, so that the engine is imported once.

`python -m tests.mutants.zoo ENGINE` reads a request as a line of JSON from stdin and answers with a line,
until its input ends. `tests.mutants.pool` starts it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from conformance.answers import Answer, from_json, to_json
from conformance.context import CheckContext
from conformance.engines import adapter
from conformance.engines.base import Adapter
from conformance.isolation import Host, Opening
from conformance.isolation.call import describe
from conformance.isolation.client import Ran
from conformance.isolation.forked import Ended, Forker
from conformance.isolation.fresh import Starter
from conformance.isolation.inline import restored
from conformance.model import Check, CheckResult, Level, Outcome
from conformance.perform import perform
from conformance.registry import all_checks
from conformance.runner import Runner
from conformance.target import parse
from tests.mutants.row import Mutant

SITES: Final = Path(__file__).with_name("sites")
ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = {"native": "tests.mutants", "vllm": "tests.vllm"}
"""Where each engine's mutants are."""

Depth = Literal["wanted", "forked", "all"]
"""How much runs: the checks that are asked for; also all that need no interpreter of their own; all."""

_ASK_ONLY: Final = frozenset(
    {
        "loading",
        "identity",
        "members",
        "dead_members",
        "pickers",
        "surfaces",
        "answers",
        "flags",
        "fallback",
        "device",
    }
)
"""Families whose checks change nothing; a real run isolates them too, here it would only take time."""

_GOOD: Final = (Outcome.PASS, Outcome.UNSUPPORTED, Outcome.SKIPPED)


@attrs.define
class ForkedZoo:
    """What runs single checks of one platform, each in a fork of this process.

    Args:
        assumed: checks that are taken as passed; others need them, and nobody asked for them.
    """

    cls: str
    site: str
    adapter: Adapter
    forker: Forker
    starter: Starter
    checks: Mapping[str, Check]
    limit: float = 120.0
    importable_by_name: bool = True
    assumed: Container[str] = frozenset[str]()
    _known: dict[str, Ran] = attrs.field(factory=dict[str, Ran])

    def run(self, check_id: str, limit: float | None = None) -> Ran:
        """Run one check; those of a family that only asks share one fork."""
        if check_id in self.assumed:
            return Ran(Answer(Outcome.PASS))
        if check_id not in self._known:
            names = self._group(check_id)
            ended = self._fork(lambda one: {name: one.answer(name) for name in names}, limit or self.limit)
            for name in names:
                if ended.answer is None:
                    self._known[name] = Ran(None, ended.died, ended.output)
                else:
                    self._known[name] = Ran(from_json(ended.answer[name]), None, ended.output)
        return self._known[check_id]

    def begin(self, check_id: str, limit: float | None = None, *, spare: bool = False) -> bool:
        """Do nothing: checks run when they are asked for."""
        return False

    def run_ahead(self, check_ids: Sequence[str], keep_out: Container[str]) -> None:
        """Run many checks in one fork, and keep what passed.

        What failed may have failed for what an earlier check left there: it runs again, alone, when it is
        asked for.

        Args:
            keep_out: checks of which nothing is kept.
        """

        def work(one: InTurn) -> dict[str, Any]:
            runner = Runner(self.checks, one, Opening("ready", engine=self.adapter.name, location=self.cls))
            for check_id in check_ids:
                runner.result(check_id)
            return one.answers

        ended = self._fork(work, self.limit)
        for name, answer in (ended.answer or {}).items():
            ran = Ran(from_json(answer))
            good = ran.answer is not None and ran.answer.outcome in _GOOD
            if good and name not in keep_out and self.checks[name].where != "fresh":
                self._known[name] = ran

    def _group(self, check_id: str) -> list[str]:
        check = self.checks[check_id]
        family = check.func.__module__
        if check.where == "fresh" or family.rpartition(".")[2] not in _ASK_ONLY:
            return [check_id]
        return [
            name
            for name, one in self.checks.items()
            if one.func.__module__ == family and one.where != "fresh" and name not in self._known
        ]

    def _fork(self, work: Callable[[InTurn], dict[str, Any]], limit: float) -> Ended:
        def task(extend: Any) -> dict[str, Any]:
            starter = attrs.evolve(self.starter, extend=extend, limit=limit)
            if self.site:
                folder = str(SITES / self.site)
                sys.path.insert(0, folder)
                starter = attrs.evolve(starter, path=[folder, *starter.path])
            return work(InTurn(load(self.cls), self.adapter, starter, self.checks, assumed=self.assumed))

        return self.forker.run(task, limit)


@attrs.define
class InTurn:
    """What runs single checks of one platform in this process, and puts back what they change.

    Args:
        assumed: checks that are taken as passed.
        answers: what each check said, as JSON values.
    """

    cls: type
    adapter: Adapter
    starter: Starter
    checks: Mapping[str, Check]
    limit: float = 120.0
    importable_by_name: bool = True
    assumed: Container[str] = frozenset[str]()
    answers: dict[str, Any] = attrs.field(factory=dict[str, Any])

    def answer(self, check_id: str) -> dict[str, Any]:
        """Run one check here."""
        with restored(self.cls):
            context = CheckContext(self.cls, self.adapter, self.starter.fresh)
            self.answers[check_id] = to_json(perform(self.checks[check_id], context))
        found: dict[str, Any] = self.answers[check_id]
        return found

    def run(self, check_id: str, limit: float | None = None) -> Ran:
        """Run one check here, as the runner asks for it."""
        if check_id in self.assumed:
            return Ran(Answer(Outcome.PASS))
        return Ran(from_json(self.answer(check_id)))

    def begin(self, check_id: str, limit: float | None = None, *, spare: bool = False) -> bool:
        """Do nothing: checks run when they are asked for."""
        return False


def request(engine: str, mutant: Mutant, *, twin: bool, depth: Depth) -> dict[str, Any]:
    """What to ask the process for about a mutant, or about its twin.

    Returns:
        JSON values: `key` (the same for every row of one platform), `cls`, `site`, `host` (it needs a process
        of its own), `together` (it keeps no state, so that its checks may share a process), `wanted`, `depth`.
    """
    name, site = (mutant.twin, mutant.twin_site) if twin else (mutant.name, mutant.site)
    return {
        "key": f"{name} {site}".strip(),
        "cls": full_name(engine, name),
        "site": site,
        "host": mutant.host and (not twin or bool(site)),
        "together": False,
        "wanted": [mutant.check],
        "depth": depth,
    }


def full_name(engine: str, name: str) -> str:
    """The whole `module:Class` of a name in a table."""
    return name if name.startswith("chip_") else f"{PACKAGES[engine]}.{name}"


def load(name: str) -> type:
    """Import a platform of the zoo, without the warnings that the base gives at its definition."""
    module, _, cls = name.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(importlib.import_module(module), cls)
    assert isinstance(found, type)
    return found


def _chosen(checks: Mapping[str, Check], engine: str, asked: Mapping[str, Any]) -> Iterator[str]:
    """The checks to run, in their order; what components compute is asked of those that are about components."""
    deep = any(checks[check_id].level >= Level.COMPONENTS for check_id in asked["wanted"])
    for check_id, check in checks.items():
        if check.engines and engine not in check.engines:
            continue
        forked = not _is_dear(check) and (deep or check.level < Level.COMPONENTS)
        deep_enough = asked["depth"] == "all" or (asked["depth"] == "forked" and forked)
        if deep_enough or check_id in asked["wanted"]:
            yield check_id


def _is_dear(check: Check) -> bool:
    """Say whether a check starts an interpreter or an engine."""
    return check.where == "fresh" or check.level is Level.ENGINE


def judge(
    asked: Mapping[str, Any], engine: Adapter, checks: Mapping[str, Check], scratch: Path
) -> dict[str, list[Any]]:
    """Run the checks that a request asks for, see `request`, and return what `as_json` makes of each."""
    wanted = list(_chosen(checks, engine.name, asked))
    if asked["host"]:
        target = parse(asked["cls"])
        with _on_path(asked["site"]), contextlib.closing(Host(target, engine=engine.name)) as host:
            runner = Runner(checks, host, host.open())
            return {check_id: as_json(runner.result(check_id)) for check_id in wanted}
    starter = Starter([*sys.path], dict(os.environ), scratch, 120.0)
    # An interpreter of its own takes longer than all that is asked here, and the platform's one fault is another.
    dear = {check_id for check_id, check in checks.items() if _is_dear(check)} - set(wanted)
    source = ForkedZoo(
        asked["cls"],
        asked["site"],
        engine,
        Forker(scratch),
        starter,
        checks,
        assumed=dear if asked["depth"] == "forked" else frozenset[str](),
    )
    opening = _opened(asked, engine.name)
    if asked["together"] and opening.status == "ready":
        cheap = [check_id for check_id in wanted if not _is_dear(checks[check_id])]
        source.run_ahead(cheap, keep_out=asked["wanted"])
    runner = Runner(checks, source, opening)
    return {check_id: as_json(runner.result(check_id)) for check_id in wanted}


@contextlib.contextmanager
def _on_path(site: str) -> Iterator[None]:
    """Let a site's folder be on the import path of this process and of those that it starts."""
    before = list(sys.path)
    sys.path[:0] = [str(SITES / site)] if site else []
    try:
        yield
    finally:
        sys.path[:] = before


def _opened(asked: Mapping[str, Any], engine: str) -> Opening:
    """Import the platform once here, for all forks; those of a site are imported in each fork."""
    if not asked["site"]:
        try:
            load(asked["cls"])
        except Exception as error:
            told = describe(error)
            module = asked["cls"].partition(":")[0]
            line = f"importing {module} raised {told['text']}"
            return Opening(
                "failed", line, module=module, engine=engine, place=told["place"], trace=told["trace"]
            )
    return Opening("ready", engine=engine, location=asked["cls"])


def as_json(one: CheckResult) -> list[Any]:
    """What `tests.mutants.pool.Seen` is made of."""
    findings = [attrs.asdict(finding) for finding in one.findings]
    return [one.outcome.value, one.reason, findings, one.traceback, one.check.severity]


def serve(name: str, answers: int) -> None:
    """Answer each request until the input ends.

    Args:
        name: of the engine.
        answers: the descriptor for the answers.
    """
    engine = adapter(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(engine.environment(folder))
        engine.prepare()
        checks = all_checks()
        gc.collect()
        gc.freeze()  # so that no fork copies what it only reads
        for line in sys.stdin:
            asked = json.loads(line)
            answer = {"key": asked["key"], "results": judge(asked, engine, checks, Path(folder))}
            data = (json.dumps(answer) + "\n").encode()
            while data:
                data = data[os.write(answers, data) :]


if __name__ == "__main__":
    apart = os.dup(1)
    os.dup2(2, 1)  # what a platform prints at import is no answer
    serve(sys.argv[1], apart)
