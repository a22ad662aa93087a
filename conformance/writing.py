"""Writes the reports that were asked for; a place that cannot be written is told before the run."""

from __future__ import annotations

import os
import secrets
import tempfile
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
    if settings.report is not None and settings.html is not None and _same(settings.report, settings.html):
        raise UsageProblem(
            f"--conformance-report and --conformance-html both name {settings.report}; name two files"
        )
    if settings.html is not None:
        html.require_jinja()


def write_all(run: Run) -> tuple[list[str], bool]:
    """Write the reports of a run.

    Returns:
        Lines for the user: what was written, or why not; and whether all of it was.
    """
    said: list[str] = []
    whole = True
    for file, text in ((run.settings.report, report.text), (run.settings.html, html.text)):
        if file is None:
            continue
        try:
            _put(text(run), file)
            said.append(f"wrote {file}")
        except (OSError, UsageProblem) as error:
            said.append(f"could not write {file}: {error}")
            whole = False
    return said, whole


def _put(text: str, file: Path) -> None:
    """Write a file; a reader never sees half of it. A device or a pipe stays what it is, a link a link.

    Raises:
        OSError: the file cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8", "replace")
    if _is_special(file):
        with file.open("wb") as out:
            out.write(data)
        return
    real = file.resolve()
    beside = real.with_name(f".platform-abc-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        beside.write_bytes(data)
        if real.exists():
            beside.chmod(real.stat().st_mode & 0o777)
        beside.replace(real)
    finally:
        beside.unlink(missing_ok=True)


def _require_place(option: str, file: Path) -> None:
    if file.is_dir():
        raise UsageProblem(f"{option} {file} is a folder; name a file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageProblem(f"{option} {file}: its folder cannot be made: {error.strerror}") from error
    if _is_special(file):
        return
    real = file.resolve()
    if not os.access(real, os.W_OK) and (real.exists() or not os.access(real.parent, os.W_OK)):
        raise UsageProblem(f"{option} {file} cannot be written")
    try:
        tempfile.TemporaryFile(dir=real.parent).close()
    except OSError as error:
        raise UsageProblem(f"{option} {file} cannot be written: {error.strerror}") from error


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() and not _is_special(one)


def _is_special(file: Path) -> bool:
    """Say whether the place is there and no ordinary file: a device or a pipe, which takes text as it is."""
    return file.exists() and not file.is_file()
