"""The benchmark measures, judges and writes what it says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.project.trees import ROOT, needs_tree

if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not outside the tree", allow_module_level=True)

from benchmarks import children, reads, table
from benchmarks.model import Bound, Row

pytestmark = needs_tree


def _row(ours: float, theirs: float | None = None, bound: Bound | None = None) -> Row:
    return Row("S", "thing", "ms", ours, theirs, bound=bound)


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (_row(1.0), None),
        (_row(1.0, bound=Bound("value", 1.0)), True),
        (_row(1.1, bound=Bound("value", 1.0)), False),
        (_row(1.0, 4.0, Bound("ratio", 0.25)), True),
        (_row(1.1, 4.0, Bound("ratio", 0.25)), False),
        (_row(1.0, None, Bound("ratio", 0.25)), None),
    ],
)
def test_target_is_met_missed_or_not_measured(row, met):
    """A ratio without a counterpart is not measured, which is neither met nor missed."""
    assert row.met is met


def test_table_marks_what_is_missed_and_says_when_vllm_is_missing():
    """A missed target stands out, and a page without vLLM says that it has one side only."""
    page = table.markdown([_row(2.0, bound=Bound("value", 1.0))], {"date": "today"})
    assert "| thing | 2 ms |  |  | ≤ 1 ms | **no** |  |" in page
    assert "vLLM is not installed" in page
    assert "not installed" not in table.markdown([_row(1.0, 2.0)], {})


def test_json_has_the_ratio_and_the_judgement():
    """Programs need not compute what the table shows."""
    told = json.loads(table.as_json([_row(1.0, 2.0, Bound("ratio", 0.4))], {}))
    assert told["rows"][0]["ratio"] == 0.5
    assert told["rows"][0]["met"] is False


def test_program_that_fails_is_reported_with_its_output():
    """A measured program that breaks is an error with its last words, never a fast time."""
    with pytest.raises(children.ChildFailed, match="no luck"):
        children.answer("import sys; sys.exit('no luck')")


def test_memory_of_a_tree_counts_its_children():
    """A child's memory counts although the parent has little."""
    hold = "import subprocess, sys; b = b'x' * (200 << 20); import time; time.sleep(1)"
    command = [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])",
    ]
    mb, how = children.peak_memory_mb(command)
    assert 190 < mb < 400
    assert how


@pytest.mark.torch
def test_reads_time_every_case():
    """Every read that has a target is measured, and each takes some time."""
    program = """
import json
from benchmarks import reads

reads.REPEATS = reads.LOOPS = 2
print("ANSWER", json.dumps(reads.measure()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("ANSWER "))
    rows = reads.rows(json.loads(line[7:]))
    assert len(rows) == len(reads.CASES)
    assert all(row.ours > 0 and row.bound is not None for row in rows)


def test_command_measures_a_part_and_writes_both_files(tmp_path):
    """`python -m benchmarks` writes the page and the JSON where it is told to."""
    page = tmp_path / "page.md"
    subprocess.run(
        [sys.executable, "-m", "benchmarks", "--part", "start", "--repeats", "1", "--out", str(page)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    assert "first read of `current_platform`" in page.read_text()
    assert json.loads(page.with_suffix(".json").read_text())["environment"]["platform-abc"]
