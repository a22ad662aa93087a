"""Generated mutants that are no faults, and those that no check finds, each with the reason."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Final

import attrs

from tests.mutants.sources import split


@attrs.frozen
class Rule:
    """Some generated mutants, and why they are as they are.

    Args:
        operators: names of operators.
        members: globs of members' names.
        reason: ends the sentence "This is no fault: …", or says why no check finds it.
    """

    operators: tuple[str, ...]
    members: tuple[str, ...]
    reason: str

    def covers(self, name: str) -> bool:
        """Say whether a mutant is one of these."""
        member, operator = split(name)
        return operator in self.operators and any(fnmatch.fnmatchcase(member, one) for one in self.members)


def reason(name: str, rules: Iterable[Rule]) -> str:
    """Why a mutant is as it is; empty where no rule is about it."""
    return next((one.reason for one in rules if one.covers(name)), "")


EQUIVALENT: Final[tuple[Rule, ...]] = ()
"""No platform with this is wrong, on either engine."""

SURVIVORS: Final[tuple[Rule, ...]] = ()
"""These are faults, and no check of the native engine finds them."""
