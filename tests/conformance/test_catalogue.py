"""The registry as a whole: ids, prerequisites, levels, texts; and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from conformance import catalogue, registry
from conformance.catalogue import checks_of
from conformance.model import IMPORTABLE, Check, Finding, Violation
from conformance.registry import check


def test_every_check_hangs_on_the_import() -> None:
    """Each check but the first needs, at some distance, that the platform imports."""
    checks = checks_of(None)

    def roots(name: str) -> set[str]:
        needs = checks[name].needs
        return {name} if not needs else {root for need in needs for root in roots(need)}

    assert {root for name in checks for root in roots(name)} == {IMPORTABLE}


def test_no_check_needs_a_dearer_one() -> None:
    """A run at a level has everything that its checks need."""
    checks = checks_of(None)
    dearer = [
        (name, need) for name, one in checks.items() for need in one.needs if checks[need].level > one.level
    ]
    assert dearer == []


def test_a_circle_of_needs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checks that need each other are a fault of the kit, told with the circle."""
    checks = dict(checks_of(None))
    first, second, *_ = [one for one in checks if one != IMPORTABLE]
    checks[first] = attrs.evolve(checks[first], needs=(second,))
    checks[second] = attrs.evolve(checks[second], needs=(first,))
    monkeypatch.setattr(registry, "all_checks", lambda: checks)
    with pytest.raises(ValueError, match="in a circle"):
        catalogue.checks_of(None)


@pytest.mark.parametrize("wrong", ["Upper.case", "single", "a b.c", "a..b", "a.b.", "é.b"])
def test_a_malformed_id_is_refused(wrong: str) -> None:
    """Ids are dotted lower case."""
    with pytest.raises(ValueError, match="is not dotted lower case"):
        check(wrong, group="identity", why="w", hint="h")


def test_an_unknown_group_is_refused() -> None:
    """A group is one of the contract's."""
    with pytest.raises(ValueError, match="group 'odd' is none of"):
        check("a.b", group="odd", why="w", hint="h")


@pytest.mark.parametrize("part", ["contract_says", "platform_did", "member", "location", "hint"])
def test_no_part_of_a_finding_is_empty(part: str) -> None:
    """A finding without one of its parts cannot be made."""
    parts = dict.fromkeys(("contract_says", "platform_did", "member", "location", "hint"), "x")
    with pytest.raises(ValueError, match=part):
        Finding(**{**parts, part: "  "})
    with pytest.raises(ValueError, match="at least one"):
        Violation()


def test_the_registry_imports_no_engine_and_no_torch() -> None:
    """The asking process lists every check without torch, an engine or a platform."""
    code = (
        "import sys; from conformance.catalogue import checks_of; checks_of(None)\n"
        "print([m for m in ('torch', 'vllm', 'platforms', 'reference_engine', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_docs_of_a_check_are_an_anchor() -> None:
    """The docs page of a check is an anchor made of its id."""
    one: Check = checks_of(None)[IMPORTABLE]
    assert one.docs == "checks.md#platformimportable"
