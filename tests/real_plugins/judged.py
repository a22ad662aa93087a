"""Run the kit on a real plugin, and compare what it said with the table, both ways."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tests.real_plugins.table import Known, Plugin, Told

_LIMIT: Final = 900.0
"""Seconds after which a run of the kit counts as hanging; the kit has limits of its own, far below."""

Entry = dict[str, Any]
"""One check of a report."""


@attrs.frozen
class Judged:
    """A run of the kit on one plugin.

    Args:
        report: the kit's; empty if there is none.
        wrong: how it deviates from the table, a sentence each.
        seconds: that the run took.
        output: what the kit printed.
    """

    report: Mapping[str, Any]
    wrong: tuple[str, ...]
    seconds: float
    output: str


def judge(plugin: Plugin, python: Path, model: Path) -> Judged:
    """Run the kit in the plugin's environment.

    Args:
        plugin: which.
        python: of its environment.
        model: a folder with a model's weights, for plugins that need them.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        report = folder / "report.json"
        settings = folder / "settings.toml"
        settings.write_text(_settings(plugin, model), encoding="utf-8")
        command: list[str | Path] = [python, "-P", "-m", "pytest", "--pyargs", "conformance"]
        command += ["-p", "no:cacheprovider", "--platform", plugin.platform]
        command += [f"--conformance-level={plugin.level}", f"--conformance-config={settings}"]
        command += [f"--conformance-select={one}" for one in plugin.select]
        command += [f"--conformance-report={report}", *(f"--conformance-stub={one}" for one in plugin.stub)]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        started = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**inherited, **plugin.variables},
                check=False,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return Judged({}, (f"the kit did not end within {_LIMIT:.0f} s",), _LIMIT, "")
        seconds = time.monotonic() - started
        output = done.stdout + done.stderr
        if not report.exists():
            return Judged({}, (f"exit {done.returncode} and no report",), seconds, output)
        told = json.loads(report.read_text(encoding="utf-8"))
    return Judged(told, tuple(deviations(plugin, told)), seconds, output)


def _settings(plugin: Plugin, model: Path) -> str:
    """The kit's settings as TOML: what is known is an expected failure, and passing is one too."""
    lines = ["[tool.platform-abc.expected-failures]"]
    for check, reasons in _reasons(plugin).items():
        lines.append(f"{json.dumps(check)} = {{ reason = {json.dumps(' '.join(reasons))} }}")
    arguments = {**({"model": str(model)} if plugin.weights else {}), **plugin.engine_arguments}
    if arguments:
        lines += ["", "[tool.platform-abc.engine-arguments]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in arguments.items()]
    return "\n".join(lines) + "\n"


def _reasons(plugin: Plugin) -> dict[str, list[str]]:
    """Why each check fails, each reason once."""
    reasons: dict[str, list[str]] = {}
    for one in plugin.known:
        entry = reasons.setdefault(one.check, [])
        if one.reason not in entry:
            entry.append(one.reason)
    return reasons


def deviations(plugin: Plugin, report: Mapping[str, Any]) -> Iterator[str]:
    """Say how a report deviates from the table, a sentence each: too much, too little, or otherwise."""
    entries: dict[str, Entry] = {one["id"]: one for one in report["checks"]}
    for entry in entries.values():
        if entry["outcome"] in ("fail", "error"):
            yield f"{entry['id']}: {_failure(entry)}, which the table does not have"
    for check in _reasons(plugin):
        wanted = [one for one in plugin.known if one.check == check]
        yield from _compare(check, wanted, entries.get(check))
    for one in plugin.told:
        yield from _tells(one, entries.get(one.check))
    if report["verdict"] not in ("conformant", "partial") and not any(
        one["outcome"] in ("fail", "error", "xpass") for one in entries.values()
    ):
        yield f"the verdict is {report['verdict']!r}: {report.get('because')}"


def _failure(entry: Entry) -> str:
    if entry["outcome"] == "error":
        return f"the kit could not judge ({entry['reason']})"
    return "; ".join(f"{one['member']}: {one['platform_did']}" for one in entry["findings"])


def _compare(check: str, wanted: list[Known], entry: Entry | None) -> Iterator[str]:
    if entry is None or entry["outcome"] != "xfail":
        outcome = "is not in the report" if entry is None else f"is {entry['outcome']}"
        yield f"{check}: it must fail ({wanted[0].reason}) and {outcome}"
        return
    for one in wanted:
        texts = [found["platform_did"] for found in entry["findings"] if found["member"] == one.member]
        if not any(one.says in text for text in texts):
            told = "; ".join(texts) or "nothing of that member"
            yield f"{check}: it must say of {one.member} {one.says!r}, and says {told}"
    expected = {one.member for one in wanted}
    for found in entry["findings"]:
        if found["member"] not in expected:
            yield f"{check}: it also names {found['member']}: {found['platform_did']}"


def _tells(told: Told, entry: Entry | None) -> Iterator[str]:
    if entry is None or entry["outcome"] != told.outcome:
        outcome = "not in the report" if entry is None else entry["outcome"]
        yield f"{told.check}: it must be {told.outcome} ({told.reason}), and is {outcome}"
        return
    text = f"{entry['reason'] or ''} {json.dumps(entry['details'], ensure_ascii=False)}"
    if told.says not in text:
        yield f"{told.check}: it must tell {told.says!r}, and tells {text[:600]}"
