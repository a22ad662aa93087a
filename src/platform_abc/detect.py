"""Print how a platform is chosen on this machine, safely: the detectors run in a child process.

A plugin may crash, hang or exit while it is imported or asked. The child says before each step what
it is about to do, so that its death is reported with the name of the detector that ran.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

from platform_abc import envs
from platform_abc._folder import hiding_files, without_implied_folder
from platform_abc.foreign import printable
from platform_abc.resolution_report import ResolutionReport

ENGINES: Final[Mapping[str, str]] = {
    "native": "platforms.detectors.resolution_spec",
    "vllm": "platform_abc.vllm_rules.resolution_spec",
}
"""The engines whose resolution we explain, with the function that gives their rules.

The names are data, since the contract imports no platform.
"""

DEFAULT_TIMEOUT: Final = 120.0
FAILED: Final = 1
INTERRUPTED: Final = 2
NO_ENGINE: Final = 4

_START: Final = (
    "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given.pop('path'); "
    "from platform_abc.detect_child import main; main(**given)"
)


def run_detect(
    engine: str = "native",
    *,
    as_json: bool = False,
    tracebacks: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
) -> int:
    """Resolve in a child process and print the report.

    The report goes to standard output; a failure is also one line on standard error. What plugins
    print goes to standard error.

    Args:
        engine: `native` or `vllm`.
        as_json: print the report as JSON instead of text.
        tracebacks: show also the tracebacks of built-in detectors and the stack of the first read.
        timeout: seconds that the child may take.

    Returns:
        0 if a platform was resolved, 1 if not or if the report cannot be written, 2 if interrupted,
        4 if there is no such engine here.
    """
    if engine not in ENGINES:
        _complain(f"unknown engine {engine!r}; known are: {', '.join(ENGINES)}")
        return NO_ENGINE
    if hiding := hiding_files():
        _complain(
            f"note: {' and '.join(hiding)}: the same name as a module that platform-abc needs; a program that is "
            "started in this folder would import this instead; it is left out here"
        )
    try:
        with _ended_by_sigterm():
            outcome = _ask_child(engine, _child_path(), timeout)
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except OSError as error:
        _complain(f"the detection cannot be started: {error}")
        return FAILED
    if "no_engine" in outcome:
        _complain(outcome["no_engine"])
        return NO_ENGINE
    report = ResolutionReport.from_json(outcome["report"])
    text = report.to_json(indent=2) + "\n" if as_json else report.render(tracebacks=tracebacks)
    if problem := _write(sys.stdout, text):
        _complain(f"the report cannot be written to standard output: {problem}")
        return FAILED
    if report.error:
        _complain(f"no platform: {report.error}")
        return FAILED
    return 0


def _complain(text: str) -> None:
    """Write one line to standard error."""
    _write(sys.stderr, f"platform-abc: {' '.join(text.split())}\n")


def _write(stream: TextIO | None, text: str) -> str:
    """Write text to a stream that may be closed, full, or without some characters; return why it failed."""
    if stream is None:  # how Python shows a descriptor that was closed before it started
        return "it is closed"
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except ValueError as error:  # closed since
        return str(error)
    except OSError as error:
        with suppress(OSError, ValueError):  # the flush at exit would complain again
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):  # `| head` has read enough
            return str(error)
    return ""


def _child_path() -> list[str]:
    """Return the import path for the child: this process's, without an implied current folder.

    The import system takes no entries but strings either.
    """
    given: list[object] = list(sys.path)
    return without_implied_folder([each for each in given if isinstance(each, str)])


@contextmanager
def _ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end this process in order, so that the child does not outlive it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _ask_child(engine: str, path: list[str], timeout: float) -> dict[str, str]:
    """Run the child; return its last word, or a report that says how it died."""
    with tempfile.TemporaryDirectory(prefix="platform-abc-detect-") as folder:
        log = Path(folder, "steps")
        log.touch()
        given = json.dumps({"path": path, "engine": engine, "log": str(log)})
        # Standard output of the child goes to our standard error: plugins print, the report must not mix.
        error_stream = 2 if _is_open(2) else subprocess.DEVNULL
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, given],
            stdin=subprocess.DEVNULL,
            stdout=error_stream,
            stderr=error_stream,
            start_new_session=True,
        )
        try:
            status: int | None = child.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(child)
        whole, _, _ = log.read_text(encoding="utf-8").rpartition("\n")  # the last line may be cut off
        said = [json.loads(line) for line in whole.splitlines()]
    last: dict[str, str] = said[-1] if said else {"step": "starting"}
    if "step" not in last:
        return last
    how = f"did not end within {timeout:g} s" if status is None else _how_it_ended(status)
    error = f"the process of the detection {how} while {last['step']}"
    if engine == "native" and last["step"].endswith(")"):  # a plugin, with its distribution
        error += f"; uninstall that plugin, or leave it out of {envs.PLUGINS}, to see the rest"
    return {
        "report": ResolutionReport(
            engine="platform-abc" if engine == "native" else engine, error=error
        ).to_json()
    }


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and what it left behind in its process group."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


def _how_it_ended(status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"died on signal {-status} ({signal.Signals(-status).name})"
        return f"died on signal {-status}"
    return f"exited with status {status} without an answer"
