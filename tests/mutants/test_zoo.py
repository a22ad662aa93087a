"""The zoo: each broken platform is named by its own check and by no other, each right twin by none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from conformance.model import Level
from conformance.registry import all_checks
from tests.mutants import snapshots
from tests.mutants.pool import Results, bad, judge_all, merged
from tests.mutants.table import MUTANTS, Mutant
from tests.mutants.zoo import Depth, request

pytestmark = pytest.mark.torch

_FIRST = {one.check: one for one in reversed(MUTANTS)}


def _marks(one: Mutant) -> list[pytest.MarkDecorator]:
    """One mutant of each check that boots no engine belongs to the default suite; the others run once before a change lands."""
    level, first = all_checks()[one.check].level, one is _FIRST[one.check]
    if first and level < Level.ENGINE:
        return []
    # An engine that boots takes seconds, and components compute a while.
    return [pytest.mark.mutants if first or level < Level.COMPONENTS else pytest.mark.zoo]


_every_mutant = pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            one,
            id=f"{one.name}-{one.check}",
            marks=_marks(one),
        )
        for one in MUTANTS
    ],
)


def _judged(session: pytest.Session, depth: Depth, asking: Mapping[str, bool]) -> Mapping[str, Results]:
    """The results of the platforms that the selected tests ask for, by key.

    Args:
        asking: the names of the test functions, and whether each is about the twin.
    """
    first = {one.check: one for one in reversed(MUTANTS)}
    wanted: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for item in session.items:
        if isinstance(item, pytest.Function) and item.originalname in asking:
            mutant, twin = item.callspec.params["mutant"], asking[item.originalname]
            # One mutant shows coverage what a check does when it fails; the others would show it again.
            measured = first[mutant.check] == mutant and not twin
            wanted[measured].append(request("native", mutant, twin=twin, depth=depth))
    results: dict[str, Results] = {}
    for measured, requests in wanted.items():
        for key, found in judge_all("native", merged(requests), measured=measured).items():
            results[key] = {**results.get(key, {}), **found}
    return results


@pytest.fixture(scope="module")
def named(request: pytest.FixtureRequest) -> Mapping[str, Results]:
    """What the checks that the table names say."""
    return _judged(
        request.session,
        "wanted",
        {
            test_a_mutant_is_named_by_its_own_check.__name__: False,
            test_a_twin_passes_that_check.__name__: True,
            test_the_text_is_the_one_that_is_kept.__name__: False,
        },
    )


@pytest.fixture(scope="module")
def whole(request: pytest.FixtureRequest) -> Mapping[str, Results]:
    """What every check says that needs no interpreter of its own."""
    return _judged(
        request.session,
        "forked",
        {test_no_other_check_fails.__name__: False, test_a_twin_fails_nothing.__name__: True},
    )


def _of(judged: Mapping[str, Results], mutant: Mutant, *, twin: bool) -> Results:
    return judged[request("native", mutant, twin=twin, depth="wanted")["key"]]


@_every_mutant
def test_a_mutant_is_named_by_its_own_check(named: Mapping[str, Results], mutant: Mutant) -> None:
    """The one fault makes the one check fail, with findings in the mutant's file; what it needs passes."""
    seen = _of(named, mutant, twin=False)[mutant.check]
    assert seen.outcome == "fail", seen
    for finding in seen.findings:
        assert "tests/mutants" in finding["location"], finding
        assert finding["platform_did"] != finding["contract_says"]


@pytest.mark.twins
@_every_mutant
def test_a_twin_passes_that_check(named: Mapping[str, Results], mutant: Mutant) -> None:
    """The same platform without the fault passes the check that names it."""
    seen = _of(named, mutant, twin=True)[mutant.check]
    assert seen.outcome in ("pass", "unsupported", "skipped"), seen


@pytest.mark.skipif(
    sys.version_info[:2] != snapshots.PYTHON,
    reason="the texts quote messages that other Pythons word otherwise",
)
@_every_mutant
def test_the_text_is_the_one_that_is_kept(named: Mapping[str, Results], mutant: Mutant) -> None:
    """What the kit tells a vendor changes only on purpose."""
    said = snapshots.told(_of(named, mutant, twin=False)[mutant.check], mutant.check)
    assert said == snapshots.committed(mutant), f"if the new text is better, run `{snapshots.COMMAND}`"


@pytest.mark.zoo
@_every_mutant
def test_no_other_check_fails(whole: Mapping[str, Results], mutant: Mutant) -> None:
    """One cause is one failure: nothing else fails or breaks."""
    failed = bad(_of(whole, mutant, twin=False))
    assert set(failed) == {mutant.check}, failed


@pytest.mark.zoo
@_every_mutant
def test_a_twin_fails_nothing(whole: Mapping[str, Results], mutant: Mutant) -> None:
    """The platform without the fault is right altogether."""
    assert not bad(_of(whole, mutant, twin=True))


def test_every_check_has_a_mutant() -> None:
    """A check that nobody can fail is no check."""
    native = {name for name, one in all_checks().items() if not one.engines or "native" in one.engines}
    assert {mutant.check for mutant in MUTANTS} == native


def test_no_mutant_is_its_own_twin() -> None:
    """A twin is another class than the mutant."""
    assert all((one.name, one.site) != (one.twin, one.twin_site) for one in MUTANTS)
