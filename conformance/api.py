"""`check_platform`: the kit without pytest, for a script, a notebook or another test framework."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from conformance.catalogue import checks_of
from conformance.isolation import Host, Opening
from conformance.local import Local
from conformance.model import DEFAULT_TIMEOUT, CheckResult, Level, Outcome
from conformance.plan import make_plan
from conformance.problems import UsageProblem
from conformance.runner import Runner
from conformance.settings import Settings, resolve_level
from conformance.stubs import read as read_stubs
from conformance.stubs import require_other
from conformance.target import Target, parse
from conformance.verdict import Verdict, judge


def check_platform(
    cls: type | str,
    *,
    level: Level | str | None = None,
    engine: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    select: str | Iterable[str] = (),
    stub: str | Iterable[str] = (),
    checks_from: str | None = None,
) -> list[CheckResult]:
    """Judge a platform class and return the result of every check.

    A class that a child process can import by name is imported in one, and this process stays as it
    is. A local class, or one of `__main__`, is judged in forks of this process; the checks that need a
    fresh interpreter are then skipped with that reason.

    Args:
        cls: the platform class, or its name as for `--platform`.
        level: the dearest level to run, as a `Level` or its label; None for all.
        engine: `native` or `vllm`; None to go by the class.
        timeout: seconds for each child process.
        select: globs of check ids; empty for all. What is left out is `skipped`.
        stub: modules that a stand-in is put in place for, where they do not import; with any, the
            verdict is at best `partial`.
        checks_from: a module whose checks are used instead of the kit's own.

    Returns:
        One result per check of the engine and level, in the order of the registry.

    Raises:
        UsageProblem: the class is no platform, or there is no such module, level, engine or check.
    """
    settings = Settings(
        level=resolve_level(level),
        engine=engine,
        timeout=timeout,
        select=(select,) if isinstance(select, str) else tuple(select),
        stub=read_stubs((stub,) if isinstance(stub, str) else stub, "stub"),
    )
    checks = checks_of(checks_from)
    light = make_plan(checks, settings, engine).is_static(checks)
    source, opening = _open(cls, settings, checks_from, light=light)
    try:
        if opening.status == "usage":
            raise UsageProblem(opening.line)
        plan = make_plan(checks, settings, opening.engine or engine)
        runner = Runner(checks, source, opening)
        wanted = [one.id for one in plan.scope if one.id in plan.chosen]
        runner.begin(wanted)
        for one in wanted:
            runner.result(one)
        known = {one.check.id: one for one in runner.known()}
    finally:
        source.close()
    left_out = "not selected; to run it: leave out select"
    return [known.get(one.id) or CheckResult(one, Outcome.SKIPPED, reason=left_out) for one in plan.scope]


def verdict_of(results: Iterable[CheckResult]) -> Verdict:
    """The verdict over results, by the rules of the command line without options."""
    return judge(results, Settings()).verdict


def _open(
    cls: type | str, settings: Settings, checks_from: str | None, *, light: bool
) -> tuple[Host | Local, Opening]:
    """Open the platform in a host, or here if it cannot be imported by name."""
    target = parse(cls) if isinstance(cls, str) else _target(cls)
    if target is not None:
        require_other(settings.stub, target.text)
        host = Host(
            target,
            engine=settings.engine,
            limit=settings.timeout,
            checks_from=checks_from,
            light=light,
            stubs=settings.stub,
        )
        opening = host.open()
        if opening.status != "usage" or isinstance(cls, str):
            return host, opening
        host.close()
    assert isinstance(cls, type)  # a name has a target
    local = Local(
        cls,
        engine=settings.engine,
        limit=settings.timeout,
        checks_from=checks_from,
        light=light,
        wanted=settings.stub,
    )
    return local, local.open()


def _target(cls: type) -> Target | None:
    """The name under which a child can import the class; None if it has none."""
    module = sys.modules.get(cls.__module__)
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        return None
    found: object = module
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return parse(f"{cls.__module__}:{cls.__qualname__}") if found is cls else None
