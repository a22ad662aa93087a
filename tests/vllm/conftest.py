"""Tests beside a real vLLM: skipped with a reason where it is not installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

ROOT = Path(__file__).parents[2]
INSTALLED = importlib.util.find_spec("vllm") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("vllm") and not INSTALLED:
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed (tox -e vllm has it)"))


@attrs.frozen
class Served:
    """A process that has vLLM prepared."""

    process: subprocess.Popen[str]

    def ask(self, **request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process that has vLLM prepared has ended"
        return json.loads(line)

    def probe(self, name: str) -> Any:
        """What a function of `tests.vllm.probes` returns."""
        answer = self.ask(probe=name)
        assert "answer" in answer, answer
        return answer["answer"]

    def judge(self, platform: str, check: str, limit: float = 120.0, *, alone: bool = False) -> Any:
        """What a check says of a class of the zoo, `zoo:Good`; alone also where what it needs has failed."""
        return self.ask(platform=platform, check=check, limit=limit, alone=alone)


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """The process that has vLLM prepared; one for all tests."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.vllm.served"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
    )
    yield Served(process)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=30)


@attrs.frozen
class Judged:
    """A run of the kit that has ended: its exit status, what it printed, its report."""

    code: int
    out: str
    report: dict[str, Any]

    def outcomes(self) -> dict[str, str]:
        return {one["id"]: one["outcome"] for one in self.report["checks"]}


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the kit on a class, in a folder of its own."""

    def run(platform: str, *options: str, path: Path | None = None) -> Judged:
        folder = tmp_path_factory.mktemp("judge")
        report = folder / "report.json"
        command = [sys.executable, "-P", "-m", "pytest", "--pyargs", "conformance", "-q"]
        command += ["-p", "no:cacheprovider", "--platform", platform, "--conformance-report", str(report)]
        ended = subprocess.run(
            [*command, *options],
            cwd=folder,
            env={**os.environ, **({"PYTHONPATH": str(path)} if path else {})},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=600,
        )
        assert report.exists(), ended.stdout
        return Judged(ended.returncode, ended.stdout, json.loads(report.read_text()))

    return run
