"""What came of every mutant, and the figures over it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from conformance.registry import all_checks
from tests.mutants.equivalents import EQUIVALENT, SURVIVORS, reason
from tests.mutants.pool import Results
from tests.mutants.row import Mutant

Fate = Literal["killed", "warned", "equivalent", "survived", "broke"]


@attrs.frozen
class Judged:
    """What came of one mutant.

    Args:
        must: the checks that failed and decide the verdict.
        should: the checks that failed and only warn.
        broken: the checks that could not be run to their end.
    """

    must: tuple[str, ...]
    should: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Every check that failed."""
        return (*self.must, *self.should)


def judged(results: Results) -> Judged:
    """Sort the results of one mutant."""

    def those(outcome: str, *severities: str) -> tuple[str, ...]:
        return tuple(
            name for name, seen in results.items() if seen.outcome == outcome and seen.severity in severities
        )

    return Judged(those("fail", "must"), those("fail", "should"), those("error", "must", "should"))


@attrs.frozen
class Matrix:
    """What came of every mutant of one engine.

    Args:
        engine: its name.
        deep: the checks that start interpreters or engines ran too.
        written: the hand-written mutants.
        generated: the generated ones by name; empty if they were left out.
    """

    engine: str
    deep: bool
    written: list[tuple[Mutant, Judged]]
    generated: Mapping[str, Judged]

    def missed(self) -> list[Mutant]:
        """The hand-written mutants whose check did not fail."""
        return [mutant for mutant, seen in self.written if mutant.check not in seen.failed]

    def fate(self, name: str) -> Fate:
        """What became of a generated mutant."""
        seen = self.generated[name]
        if reason(name, EQUIVALENT):
            return "equivalent"
        if seen.must:
            return "killed"
        if seen.should:
            return "warned"
        return "broke" if seen.broken else "survived"

    def fates(self, fate: Fate) -> list[str]:
        """The generated mutants of which this became."""
        return [name for name in self.generated if self.fate(name) == fate]

    def killed(self) -> float:
        """The share of the generated mutants that are faults and that a `must` finds, in percent."""
        faults = len(self.generated) - len(self.fates("equivalent"))
        return 100.0 * len(self.fates("killed")) / faults if faults else 100.0

    def unexplained(self) -> list[str]:
        """The generated mutants that survive without a reason."""
        return [
            name for name in (*self.fates("survived"), *self.fates("broke")) if not reason(name, SURVIVORS)
        ]

    def accused(self) -> list[str]:
        """The generated mutants that are no faults, and on which a `must` fails all the same."""
        return [name for name in self.fates("equivalent") if self.generated[name].must]

    def fails_per_mutant(self) -> list[int]:
        """How many checks fail on each hand-written platform."""
        return [len(seen.failed) for seen in self._platforms().values()]

    def fails_per_generated(self) -> list[int]:
        """How many checks fail on each generated mutant on which any does."""
        return [len(seen.failed) for seen in self.generated.values() if seen.failed]

    def median(self) -> float:
        """The median of `fails_per_mutant` and `fails_per_generated`."""
        return statistics.median([*self.fails_per_mutant(), *self.fails_per_generated()] or [0])

    def most(self) -> int:
        """The largest of `fails_per_mutant` and `fails_per_generated`."""
        return max([*self.fails_per_mutant(), *self.fails_per_generated()], default=0)

    def several(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each mutant on which more than one check fails, with these checks."""
        seen = {**self._platforms(), **self.generated}
        return [(name, one.failed) for name, one in seen.items() if len(one.failed) > 1]

    def unexercised(self) -> list[str]:
        """The checks of this engine that no row names."""
        named = {mutant.check for mutant, _ in self.written}
        return [name for name in self.checks() if name not in named]

    def checks(self) -> list[str]:
        """The checks of this engine."""
        return [name for name, one in all_checks().items() if not one.engines or self.engine in one.engines]

    def by_check(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield each check with the hand-written and the generated mutants on which it fails."""
        platforms = self._platforms()
        for check in self.checks():
            yield (
                check,
                [name for name, seen in platforms.items() if check in seen.failed],
                [name for name, seen in self.generated.items() if check in seen.failed],
            )

    def as_json(self) -> dict[str, Any]:
        """Every failure, as JSON values."""
        return {
            "engine": self.engine,
            "deep": self.deep,
            "written": [
                {"mutant": mutant.name, "check": mutant.check, **attrs.asdict(seen)}
                for mutant, seen in self.written
            ],
            "generated": {
                name: {"fate": self.fate(name), **attrs.asdict(seen)} for name, seen in self.generated.items()
            },
        }

    def _platforms(self) -> dict[str, Judged]:
        return {mutant.name: seen for mutant, seen in self.written}
