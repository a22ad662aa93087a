"""Judges many platforms in a few processes that each have the engine in memory."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tests.mutants.zoo import ROOT

PROCESSES: Final = 2
BAD: Final = ("fail", "error")


@attrs.frozen
class Seen:
    """What came of one check: outcome, reason, findings, the traceback of an error, `must` or `should`."""

    outcome: str
    reason: str
    findings: list[dict[str, str]]
    traceback: str
    severity: str


Results = Mapping[str, Seen]


def bad(results: Results) -> dict[str, Seen]:
    """The results that failed, or that the kit could not get."""
    return {name: seen for name, seen in results.items() if seen.outcome in BAD}


def merged(requests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One request for each platform: what several rows want of it together."""
    found: dict[str, dict[str, Any]] = {}
    for one in requests:
        kept = found.setdefault(one["key"], {**one, "wanted": []})
        kept["wanted"] += [name for name in one["wanted"] if name not in kept["wanted"]]
        kept["host"] = kept["host"] or one["host"]
    return list(found.values())


def judge_all(
    engine: str,
    requests: Iterable[Mapping[str, Any]],
    *,
    processes: int = PROCESSES,
    tell: bool = False,
    kept: Path | None = None,
    measured: bool = True,
) -> dict[str, Results]:
    """Judge platforms and return the results of each by its key.

    Args:
        engine: `native` or `vllm`.
        requests: as `tests.mutants.zoo.request` makes them, one for each platform.
        processes: how many run beside each other.
        tell: print on stderr how far it is.
        kept: a file to which each answer is added as a line; what was asked so before is not asked again.
        measured: where coverage measures this process, also those that judge; it takes longer than they do.

    Raises:
        RuntimeError: a process ended before it had answered.
    """
    waiting: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    asked = list(requests)
    found = _answered(asked, kept)
    asked = [one for one in asked if one["key"] not in found]
    for one in asked:
        waiting.put(one)
    done = itertools.count(1)
    problems: list[str] = []

    def work() -> None:
        process = _start(engine, measured=measured)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            while True:
                try:
                    one = waiting.get_nowait()
                except queue.Empty:
                    return
                process.stdin.write(json.dumps(one) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    problems.append(f"the process that judged {one['key']} has ended")
                    return
                answer = json.loads(line)
                found[answer["key"]] = _seen(answer)
                if kept is not None:
                    with kept.open("a") as file:
                        file.write(json.dumps({"asked": one, "answer": answer}) + "\n")
                if (number := next(done)) % 50 == 0 and tell:
                    print(f"{number} of {len(asked)}", file=sys.stderr, flush=True)
        except OSError as error:
            problems.append(f"a process that judges has ended: {error}")
        finally:
            process.stdin.close()
            process.stdout.close()
            process.wait()

    workers = [threading.Thread(target=work) for _ in range(min(processes, len(asked)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if problems:
        raise RuntimeError("; ".join(problems))
    return found


def _seen(answer: Mapping[str, Any]) -> Results:
    return {name: Seen(*seen) for name, seen in answer["results"].items()}


def _answered(asked: Iterable[Mapping[str, Any]], kept: Path | None) -> dict[str, Results]:
    """The answers of an earlier run to the same requests."""
    if kept is None or not kept.exists():
        return {}
    known = [json.loads(line) for line in kept.read_text().splitlines()]
    wanted = list(asked)
    return {one["answer"]["key"]: _seen(one["answer"]) for one in known if one["asked"] in wanted}


def _start(engine: str, *, measured: bool) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if measured or not name.startswith("COVERAGE_")}
    env["OMP_NUM_THREADS"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.mutants.zoo", engine],
        cwd=ROOT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
