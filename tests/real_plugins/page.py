"""The page of results: what the kit says of real plugins, from the reports of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
        "| plugin | beside | level | checks that pass | that fail | unsupported | skipped | not run |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
        *rows,
    ]
    parts = [_HEAD, "\n".join(table) + "\n", *(_section(plugin, judged.report) for plugin, judged in results)]
    return "\n".join(parts)


def _row(plugin: Plugin, report: Mapping[str, Any]) -> str:
    counts = report["counts"]
    failed = counts["fail"] + counts["xfail"]
    numbers = (counts["pass"], failed, counts["unsupported"], counts["skipped"], counts["not-run"])
    cells = [f"[{plugin.requirement}](#{plugin.name})", plugin.engine, plugin.level, *map(str, numbers)]
    return f"| {' | '.join(cells)} |"


def _section(plugin: Plugin, report: Mapping[str, Any]) -> str:
    lines = [f"## {plugin.name}", "", plugin.about, ""]
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
    for one in plugin.told:
        lines.append(f"- [{one.check}]({_anchor(report, one.check)}) is {one.outcome}: {one.reason}")
    if plugin.told:
        lines.append("")
    return "\n".join(lines)


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
