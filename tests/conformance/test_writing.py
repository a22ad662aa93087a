"""Reports: where they may go, and that what stands there already stays what it is."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from conformance.problems import UsageProblem
from conformance.report import Run
from conformance.settings import Settings
from conformance.verdict import Judgement, Verdict
from conformance.writing import require_writable, write_all


def _run(report: Path) -> Run:
    return Run("acme.Acme", Settings(report=report), Judgement(Verdict.CONFORMANT, 0, "no check"))


def test_a_pipe_or_device_takes_the_report_and_stays_what_it_is(tmp_path: Path) -> None:
    """A place that is no ordinary file is written to and never replaced by one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    require_writable(Settings(report=pipe))
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    said, whole = write_all(_run(pipe))
    reader.join(10)
    assert (said, whole) == ([f"wrote {pipe}"], True)
    assert '"verdict": "conformant"' in heard[0]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_a_link_and_a_mode_stays_a_mode(tmp_path: Path) -> None:
    """The file that a link leads to is replaced, with its permissions; nothing is left beside it."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert write_all(_run(link))[1]
    assert link.is_symlink()
    assert "conformant" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert {one.name for one in tmp_path.iterdir()} == {"real.json", "link.json"}


def test_two_reports_need_two_files(tmp_path: Path) -> None:
    """The JSON report and the page in one file would be one of them."""
    both = tmp_path / "both"
    with pytest.raises(UsageProblem, match="name two files"):
        require_writable(Settings(report=both, html=tmp_path / "." / "both"))


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, where nobody can make a file")
def test_a_folder_that_takes_no_file_is_told_before_the_run() -> None:
    """Permissions do not say everything: the place is tried."""
    with pytest.raises(UsageProblem, match="cannot be written"):
        require_writable(Settings(report=Path("/proc/report.json")))


def test_a_report_that_could_not_be_written_is_told(tmp_path: Path) -> None:
    """What goes wrong at the end is a line, and the caller learns of it."""
    (tmp_path / "file").write_text("")
    said, whole = write_all(_run(tmp_path / "file" / "report.json"))
    assert not whole
    assert said[0].startswith("could not write")
