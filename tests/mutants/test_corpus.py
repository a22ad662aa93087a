"""The table of reported faults agrees with the table of the zoo."""

from __future__ import annotations

import pytest

from tests.mutants.corpus import CASES, Case
from tests.mutants.table import MUTANTS

_ROWS = {(one.name, one.check) for one in MUTANTS}
_IDS = [one.id for one in CASES]


@pytest.mark.parametrize("case", CASES, ids=_IDS)
def test_a_case_has_a_mutant_or_a_reason(case: Case) -> None:
    """Each reported fault that a platform can have is a mutant that the table of the zoo has with its check."""
    if case.why_not:
        assert not case.mutant
        assert not case.check
    else:
        assert (case.mutant, case.check) in _ROWS


def test_no_case_is_listed_twice() -> None:
    """A number stands for one report."""
    assert len(set(_IDS)) == len(_IDS)


@pytest.mark.vllm
def test_the_mutants_of_vllm_are_in_its_table() -> None:
    """What the table names for vLLM's base, vLLM's zoo has."""
    from tests.vllm.table import MUTANTS as of_vllm

    assert {one.vllm for one in CASES if one.vllm} <= {one.name for one in of_vllm}
