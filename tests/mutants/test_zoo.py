"""The zoo: each broken platform is named by its own check and by no other, each right twin by none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

import attrs
import pytest

from conformance.registry import all_checks
from tests.mutants.table import MUTANTS, Mutant
from tests.mutants.zoo import ROOT

pytestmark = pytest.mark.torch

_PROCESSES: Final = 2
_BAD: Final = ("fail", "error")


@attrs.frozen
class Seen:
    """What came of one check: outcome, reason, findings, and the traceback of an error."""

    outcome: str
    reason: str
    findings: list[dict[str, str]]
    traceback: str


Results = Mapping[str, Seen]


def _mutant_key(mutant: Mutant) -> str:
    return f"mutant {mutant.name} {mutant.check}"


def _twin_key(mutant: Mutant) -> str:
    return f"twin {mutant.twin} {mutant.twin_site}"


def _requests(wanted: set[str]) -> list[dict[str, Any]]:
    """What to judge, once each: the mutants that are tested, and the twins."""
    asked: dict[str, dict[str, Any]] = {}
    for one in MUTANTS:
        for key, name, site, host in (
            (_mutant_key(one), one.name, one.site, one.host),
            (_twin_key(one), one.twin, one.twin_site, False),
        ):
            if key in wanted:
                request = {"key": key, "name": name, "site": site, "host": host, "wanted": []}
                asked.setdefault(key, request)["wanted"].append(one.check)
    return list(asked.values())


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest) -> Mapping[str, Results]:
    """Every result by key, from a few processes that each import torch once."""
    wanted = {
        key(mutant)
        for item in request.session.items
        if isinstance(item, pytest.Function) and isinstance(mutant := _of(item), Mutant)
        for key in (_mutant_key, _twin_key)
    }
    requests = _requests(wanted)
    # Twenty thousand forks that each save a file of coverage take longer than what they measure.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    env["OMP_NUM_THREADS"] = "1"
    running = []
    for number in range(_PROCESSES):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.zoo"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(requests[number::_PROCESSES]))
        process.stdin.close()
        running.append(process)
    found: dict[str, Results] = {}
    for process in running:
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            found[answer["key"]] = {name: Seen(*seen) for name, seen in answer["results"].items()}
        assert process.wait(60) == 0
    return found


def _of(item: pytest.Function) -> object:
    return item.callspec.params.get("mutant") if hasattr(item, "callspec") else None


def _bad(results: Results) -> dict[str, Seen]:
    return {name: seen for name, seen in results.items() if seen.outcome in _BAD}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.name}-{one.check}")
def test_a_mutant_is_named_by_its_own_check_alone(judged: Mapping[str, Results], mutant: Mutant) -> None:
    """The one fault makes the one check fail, with a finding in a file; nothing else fails or breaks."""
    bad = _bad(judged[_mutant_key(mutant)])
    assert set(bad) == {mutant.check}, bad
    assert bad[mutant.check].outcome == "fail"
    for finding in bad[mutant.check].findings:
        assert "tests/mutants" in finding["location"], finding
        assert finding["platform_did"] != finding["contract_says"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.name}-{one.check}")
def test_a_twin_fails_nothing(judged: Mapping[str, Results], mutant: Mutant) -> None:
    """The same platform without the fault passes the check that names it, and fails no other."""
    results = judged[_twin_key(mutant)]
    assert not _bad(results)
    assert results[mutant.check].outcome in ("pass", "unsupported", "skipped")


def test_every_check_has_a_mutant() -> None:
    """A check that nobody can fail is no check."""
    native = {name for name, one in all_checks().items() if not one.engines or "native" in one.engines}
    assert {mutant.check for mutant in MUTANTS} == native


def test_no_mutant_is_its_own_twin() -> None:
    """A twin is another class than the mutant."""
    assert all((one.name, one.site) != (one.twin, one.twin_site) for one in MUTANTS)
