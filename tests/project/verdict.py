"""Run the kit on one platform and compare its verdict with the one that is expected here.

    python tests/project/verdict.py platforms.cuda:CudaPlatform partial [--level LEVEL] [pytest options]

Ends with 0 if the verdict is the expected one. For a platform that is expected to be `partial` because
its device is missing, `conformant` is as good: the machine has the device. No failure is tolerated in
either.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def judge(platform: str, expected: str, level: str | None, extra: list[str]) -> list[str]:
    """Run the kit in a child, printing what it prints, and list what is not as expected."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-P", "-m", "pytest", "--pyargs", "conformance"]
        command += ["--platform", platform, f"--conformance-report={report}", *extra]
        if level is not None:
            command.append(f"--conformance-level={level}")
        code = subprocess.run(command, cwd=folder, check=False, stdin=subprocess.DEVNULL).returncode
        if not report.exists():
            return [f"exit {code} and no report"]
        told = json.loads(report.read_text())
    wrong = []
    tolerated = {expected, "conformant"} if expected == "partial" else {expected}
    if told["verdict"] not in tolerated:
        wrong.append(f"verdict {told['verdict']!r}, expected {expected!r}")
    if code != (1 if told["verdict"] == "not conformant" else 0):
        wrong.append(f"exit {code} does not go with {told['verdict']!r}")
    failures = [one["id"] for one in told["checks"] if one["outcome"] == "fail" and one["severity"] == "must"]
    if expected != "not conformant" and failures:
        wrong.append(f"failed: {', '.join(failures)}")
    errors = [one["id"] for one in told["checks"] if one["outcome"] == "error"]
    if errors:
        wrong.append(f"broke in the kit itself: {', '.join(errors)}")
    return wrong


def main() -> int:
    """Read the command line, judge, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("platform")
    parser.add_argument("expected", choices=["conformant", "partial", "not conformant"])
    parser.add_argument("--level")
    asked, extra = parser.parse_known_args()
    wrong = judge(asked.platform, asked.expected, asked.level, extra)
    for one in wrong:
        sys.stderr.write(f"{asked.platform}: {one}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
