"""The page of results: what the kit says of real plugins, from the reports of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.real_plugins.judged import Judged
from tests.real_plugins.table import Plugin

_SITE: Final = re.compile(r"(/[^\s'\"`:,]+)*/site-packages/")
_PLACE: Final = re.compile(r"(?<![\w.])(/[^\s'\"`:,]+)+/(?=[^\s/'\"`:,]+)")
_HEAD: Final = """\
# Real plugins

What the kit says of published platforms, each on a machine without its device, beside a vLLM that it loads with.
The page is made by

```console
python tests/real_plugins/run.py --out docs/real-plugins.md
```

which builds an environment for each plugin from the package index, runs the kit, and compares what it says with a table
(`tests/real_plugins/plugins.toml`) in both directions: a fault that is not found is an error, and so is a finding that
the table does not have. A name behind `--only` runs one plugin alone. `tox run -e plugins` does the same.
"""


def page(results: Iterable[tuple[Plugin, Judged]]) -> str:
    """The page as Markdown."""
    results = list(results)
    rows = [_row(plugin, judged.report) for plugin, judged in results]
    table = [
        "| plugin | beside | level | verdict | pass | fail | unsupported | skipped | not run |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
        *rows,
    ]
    parts = [_HEAD, "\n".join(table) + "\n", _legend(results)]
    return "\n".join([*parts, *(_section(plugin, judged.report) for plugin, judged in results)])


def _legend(results: Sequence[tuple[Plugin, Judged]]) -> str:
    """What the numbers of the table mean, and what they were made with."""
    report = results[0][1].report
    made = report["environment"]
    packages = made["packages"]
    return (
        f"Made with kit {report['kit']}, contract {report['contract']}, torch {packages['torch']}, "
        f"{made['implementation']} {made['python']} on {made['system']} {made['machine']}.\n\n"
        "The verdict is the kit's without a table of what is known. `fail` counts checks, warnings among them;\n"
        "`unsupported` is what the platform declares that it does not do, or what its vLLM does not ask for; what was\n"
        "`skipped` or `not run` is listed for each plugin with the reason.\n"
    )


def _row(plugin: Plugin, report: Mapping[str, Any]) -> str:
    counts = report["counts"]
    failed = counts["fail"] + counts["xfail"]
    asked = sum(not _deselected(one) for one in report["checks"] if one["outcome"] == "skipped")
    numbers = (counts["pass"], failed, counts["unsupported"], asked, counts["not-run"])
    cells = [f"[{plugin.requirement}](#{plugin.name})", plugin.engine, plugin.level, _verdict(report)]
    return f"| {' | '.join([*cells, *map(str, numbers)])} |"


def _verdict(report: Mapping[str, Any]) -> str:
    """The verdict that the kit gives where nothing is an expected failure."""
    failing = [one for one in report["checks"] if one["outcome"] in ("fail", "xfail")]
    if any(one["severity"] == "must" for one in failing):
        return "not conformant"
    return str(report["verdict"])


def _section(plugin: Plugin, report: Mapping[str, Any]) -> str:
    lines = [f"## {plugin.name}", "", plugin.about, ""]
    lines += [f"`{report['platform']['qualname']}`, vLLM {report['engine']['version']}.", ""]
    if plugin.variables:
        given = ", ".join(f"`{name}={value}`" for name, value in plugin.variables.items())
        lines += [f"With {given}.", ""]
    if plugin.stub:
        lines += [f"With stand-ins for {', '.join(f'`{one}`' for one in plugin.stub)}.", ""]
    failing = [one for one in report["checks"] if one["outcome"] in ("fail", "xfail")]
    if failing:
        lines += [
            "| check | member | what it does | where | why it is so |",
            "| --- | --- | --- | --- | --- |",
        ]
        for entry in failing:
            lines += [_finding(plugin, entry, found) for found in entry["findings"]]
        lines.append("")
    if plugin.told:
        lines += ["Also told:", ""]
        for one in plugin.told:
            what = f"`{one.outcome}`" + (f", with “{one.says}”" if one.says else "")
            lines.append(f"- [{one.check}]({_anchor(report, one.check)}): {what}: {one.reason}.")
        lines.append("")
    holes = [*_holes(report), *([plugin.unjudged] if plugin.unjudged else [])]
    if holes:
        lines += ["Not judged:", "", *(f"- {one}" for one in holes), ""]
    return "\n".join(lines)


def _holes(report: Mapping[str, Any]) -> Iterator[str]:
    """What was skipped or not run, a line for each reason."""
    found: dict[str, list[str]] = {}
    for entry in report["checks"]:
        if entry["outcome"] in ("skipped", "not-run") and not _deselected(entry):
            found.setdefault(without_places(str(entry["reason"])), []).append(
                f"[{entry['id']}]({entry['docs']})"
            )
    for reason, checks in found.items():
        yield f"{', '.join(checks)}: {reason}."
    others = sum(_deselected(one) for one in report["checks"])
    if others:
        yield f"Checks that this row does not ask for, {others} of them; another row of the plugin does."


def _deselected(entry: Mapping[str, Any]) -> bool:
    return entry["outcome"] == "skipped" and "--conformance-select" in str(entry["reason"])


def _finding(plugin: Plugin, entry: Mapping[str, Any], found: Mapping[str, str]) -> str:
    reasons = [
        one.reason
        for one in plugin.known
        if one.check == entry["id"] and one.member == found["member"] and one.says in found["platform_did"]
    ]
    severity = "" if entry["severity"] == "must" else " (a warning)"
    cells = (
        f"[{entry['id']}]({entry['docs']}){severity}",
        f"`{found['member']}`",
        without_places(found["platform_did"]),
        f"`{without_places(found['location'])}`",
        " ".join(dict.fromkeys(reasons)),
    )
    return f"| {' | '.join(one.replace('|', chr(92) + '|') for one in cells)} |"


def _anchor(report: Mapping[str, Any], check: str) -> str:
    return next((str(one["docs"]) for one in report["checks"] if one["id"] == check), "checks.md")


def without_places(text: str) -> str:
    """A text in one line, without folders of this machine."""
    return _PLACE.sub("…/", _SITE.sub("", " ".join(text.split())))
