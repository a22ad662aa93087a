"""Writes the reports that were asked for; a place that cannot be written is told before the run."""

from __future__ import annotations

import os
from pathlib import Path

from conformance import html, report
from conformance.problems import UsageProblem
from conformance.report import Run
from conformance.settings import Settings


def require_writable(settings: Settings) -> None:
    """Refuse a report that could not be written at the end.

    Raises:
        UsageProblem: the place is a folder or read-only, or a library is missing.
    """
    for option, file in (("report", settings.report), ("html", settings.html)):
        if file is not None:
            _require_place(f"--conformance-{option}", file)
    if settings.html is not None:
        html.require_jinja()


def write_all(run: Run) -> list[str]:
    """Write the reports of a run.

    Returns:
        Lines for the user: what was written, or why not.
    """
    said: list[str] = []
    for file, write in ((run.settings.report, report.write), (run.settings.html, html.write)):
        if file is None:
            continue
        try:
            write(run, file)
            said.append(f"wrote {file}")
        except (OSError, UsageProblem) as error:
            said.append(f"could not write {file}: {error}")
    return said


def _require_place(option: str, file: Path) -> None:
    if file.is_dir():
        raise UsageProblem(f"{option} {file} is a folder; name a file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageProblem(f"{option} {file}: its folder cannot be made: {error.strerror}") from error
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageProblem(f"{option} {file} cannot be written")
