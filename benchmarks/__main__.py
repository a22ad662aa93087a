"""The command: measure, write `docs/benchmarks.md` and the JSON beside it, say which targets are missed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks import engine, kit, reads, startup, table
from benchmarks.children import ChildFailed, environment
from benchmarks.model import Row

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("start", "reads", "engine", "kit")


def measure(parts: list[str], repeats: int) -> list[Row]:
    """Measure the parts asked for, in a fixed order."""
    rows: list[Row] = []
    if "start" in parts:
        rows += startup.measure(repeats)
    if "reads" in parts:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.reads"],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows += reads.rows(json.loads(done.stdout.splitlines()[-1]))
    if "engine" in parts:
        rows += engine.measure(repeats)
    if "kit" in parts:
        rows += kit.measure(max(1, repeats // 2))
    return rows


def main() -> int:
    """Run from the command line; 1 if a target is missed and `--check` was given, 2 if a run broke."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--repeats", type=int, default=6, help="fresh processes a measurement (default 6)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md", help="the page to write")
    parser.add_argument("--json", type=Path, help="the JSON to write (default: beside the page)")
    parser.add_argument("--check", action="store_true", help="end with 1 if a target is missed")
    asked = parser.parse_args()
    if asked.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        rows = measure(asked.part or list(PARTS), asked.repeats)
    except (ChildFailed, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"benchmarks: {error}\n")
        return 2
    about = table.environment()
    asked.out.write_text(table.markdown(rows, about))
    (asked.json or asked.out.with_suffix(".json")).write_text(table.as_json(rows, about))
    print(asked.out.read_text())
    missed = [row for row in rows if row.met is False]
    for row in missed:
        print(f"missed: {row.what}")
    return 1 if missed and asked.check else 0


if __name__ == "__main__":
    sys.exit(main())
