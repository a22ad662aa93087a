"""Judges a class that no child can import by name: checks run in forks of this very process."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import attrs

from conformance import stubs
from conformance.answers import from_json, to_json
from conformance.catalogue import checks_of
from conformance.context import CheckContext, locate
from conformance.engines import choose
from conformance.engines.base import Adapter
from conformance.isolation.client import Opening, Ran
from conformance.isolation.died import ChildDied
from conformance.isolation.environment import child_environment, import_path
from conformance.isolation.forked import CAN_FORK, Forker, Task
from conformance.isolation.fresh import Starter
from conformance.isolation.inline import restored
from conformance.perform import perform
from conformance.problems import UsageProblem
from conformance.stubs import Stubs


@attrs.define
class Local:
    """The source of answers for a local class.

    Args:
        cls: the class.
        engine: the adapter's name; None to go by the class.
        limit: seconds for each check.
        checks_from: the module that has the checks, or None for the kit's own.
        light: only static checks will run, which need no engine where its adapter is lazy.
        wanted: modules that stand-ins are put in place for, where they do not import.
    """

    cls: type
    engine: str | None = None
    limit: float = 120.0
    checks_from: str | None = None
    light: bool = False
    wanted: tuple[str, ...] = ()
    importable_by_name: bool = False
    _scratch: Path | None = None
    _adapter: Adapter | None = None
    _stubs: Stubs = attrs.field(factory=Stubs)

    def open(self) -> Opening:
        """Prepare the engine in this process."""
        try:
            self._adapter = choose(self.cls, self.engine)
        except UsageProblem as problem:
            return Opening("usage", problem.line)
        self._scratch = Path(tempfile.mkdtemp(prefix="platform-abc-"))
        before = dict(os.environ)
        try:
            os.environ.update(self._adapter.environment(str(self._scratch)))
            if not (self.light and self._adapter.lazy):
                self._adapter.prepare()
            self._stubs = stubs.put(self.wanted)
        except Exception as error:
            return Opening("error", f"the engine raised {type(error).__name__}: {error}")
        finally:
            os.environ.clear()
            os.environ.update(before)
        name = f"{self.cls.__module__}.{self.cls.__qualname__}"
        return Opening(
            "ready",
            engine=self._adapter.name,
            qualname=name,
            location=locate(self.cls) or name,
            stubs=self._stubs,
        )

    def run(self, check_id: str, limit: float | None = None) -> Ran:
        """Run one check in a fork of this process, or in it where fork is unsafe."""
        assert self._scratch is not None  # it is open
        assert self._adapter is not None  # it is open
        adapter = self._adapter
        check = checks_of(self.checks_from)[check_id]
        path = import_path()
        variables = {**child_environment(self._scratch, path), **adapter.environment(str(self._scratch))}
        starter = Starter(path, variables, self._scratch, limit or self.limit)

        def context(starter: Starter) -> CheckContext:
            return CheckContext(self.cls, adapter, starter.fresh, importable_by_name=False, left=starter.left)

        if not CAN_FORK:
            with restored(self.cls):
                return Ran(perform(check, context(starter)))
        task: Task = lambda extend: to_json(perform(check, context(attrs.evolve(starter, extend=extend))))  # noqa: E731
        ended = Forker(self._scratch).run(task, starter.limit)
        if ended.answer is None:
            return Ran(None, ended.died or ChildDied("exit", "unknown"), ended.output)
        return Ran(from_json(ended.answer), None, ended.output)

    def begin(self, check_id: str, limit: float | None = None, *, spare: bool = False) -> bool:
        """Do nothing: what needs an interpreter of its own is skipped for a local class."""
        return False

    def close(self) -> None:
        """Remove every file of the run, and the stand-ins."""
        stubs.remove()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
