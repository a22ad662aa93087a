"""The page of the docs that lists every check, made from the registry.

`python -m conformance.checks_page > docs/checks.md` writes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby

from conformance.model import Check
from conformance.registry import GROUPS, all_checks

_HEAD = """\
# Checks

What the kit checks, one section a check. The id never changes: select checks by it
(`--conformance-select 'config.*'`), and list expected failures by it.

A check that says *must* decides the verdict; one that says *should* is a warning unless the run is
strict. The level says what a check needs: `static` looks at the class, `contract` calls it without a
device, `device` works on the device, `components` compares what the picked classes compute with plain
references there, `engine` boots a small engine. A check runs when those that it needs have passed.

As in an engine, the general plugins that the platform's own distribution publishes run once the platform is
there and before the device is asked for: in the process of each check that an engine would come to after
them. Those do not run where `activation.general-plugins` fails.

This page is made from the checks themselves: `python -m conformance.checks_page > docs/checks.md`.
"""


def page() -> str:
    """Return the page as Markdown."""
    checks = sorted(all_checks().values(), key=lambda one: GROUPS.index(one.group))
    parts = [_HEAD]
    for group, members in groupby(checks, key=lambda one: one.group):
        parts.append(f"## {group.replace('_', ' ').capitalize()}\n")
        parts += [_section(one) for one in members]
    return "\n".join(parts)


def _section(check: Check) -> str:
    return "\n".join(_lines(check)) + "\n"


def _lines(check: Check) -> Iterator[str]:
    rule = (inspect.getdoc(check.func) or "").partition("\n")[0]
    engines = f" · only on {', '.join(check.engines)}" if check.engines else ""
    yield f"### `{check.id}`"
    yield ""
    yield f"{check.severity} · level {check.level.label} · since contract {check.since}{engines}"
    yield ""
    yield f"**Rule.** {rule}"
    yield ""
    yield f"**Why.** {check.why}"
    yield ""
    yield f"**Remedy.** {check.hint}"
    if check.needs:
        yield ""
        yield "Needs " + ", ".join(f"[`{need}`](#{need.replace('.', '')})" for need in check.needs) + "."


if __name__ == "__main__":
    print(page(), end="")
