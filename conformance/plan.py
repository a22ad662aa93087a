"""Which checks a run is about, and which of them it runs."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from conformance.model import Check, Level
from conformance.problems import UsageProblem, did_you_mean
from conformance.settings import Settings, version_key


@attrs.frozen
class Plan:
    """The checks of a run.

    Args:
        scope: those of the engine and level, in order; a report lists them all.
        chosen: ids of those that the selection keeps.
    """

    scope: tuple[Check, ...]
    chosen: frozenset[str]

    def is_static(self, checks: Mapping[str, Check]) -> bool:
        """Say whether the chosen checks, and all that they need, ask the class alone."""
        needed = set(self.chosen)
        while more := {need for name in needed for need in checks[name].needs} - needed:
            needed |= more
        return all(checks[name].level is Level.STATIC for name in needed)


def make_plan(checks: Mapping[str, Check], settings: Settings, engine: str | None) -> Plan:
    """Choose the checks.

    Args:
        checks: all that there are.
        settings: of the run.
        engine: the adapter's name; None if unknown, then the checks of every engine are in scope.

    Raises:
        UsageProblem: nothing is left.
    """
    scope = tuple(
        one
        for one in checks.values()
        if (settings.level is None or one.level <= settings.level)
        and (engine is None or not one.engines or engine in one.engines)
    )
    chosen = frozenset(
        one.id
        for one in scope
        if not settings.select or any(one.matches(pattern) for pattern in settings.select)
    )
    if not chosen:
        raise UsageProblem(nothing_chosen(checks, settings, scope))
    if checks and all(informative(one, settings) for one in checks.values()):
        first = min((one.since for one in checks.values()), key=version_key)
        raise UsageProblem(
            f"--conformance-contract {settings.contract} is older than every check, so that nothing would "
            f"decide; the first contract is {first}"
        )
    return Plan(scope, chosen)


def nothing_chosen(checks: Mapping[str, Check], settings: Settings, scope: tuple[Check, ...]) -> str:
    """One line about a run that has no check."""
    if not scope:
        level = settings.level.label if settings.level is not None else "any"
        return f"no check collected: none has level {level} for this engine; see --conformance-list"
    patterns = ", ".join(settings.select)
    elsewhere = [
        one.id for one in checks.values() if any(one.matches(pattern) for pattern in settings.select)
    ]
    if elsewhere:
        return (
            f"no check collected: {elsewhere[0]} matches --conformance-select {patterns}, but not the level or "
            "the engine of this run"
        )
    near = did_you_mean(settings.select[0], checks) if settings.select else ""
    return f"no check collected: no id matches --conformance-select {patterns}{near}; see --conformance-list"


def informative(check: Check, settings: Settings) -> bool:
    """Say whether a check is newer than the contract that the user pinned, so that it decides nothing."""
    return settings.contract is not None and version_key(check.since) > version_key(settings.contract)
