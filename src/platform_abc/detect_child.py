"""The child process of a detection: resolves, and writes each step and the report to a file."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, cast

import attrs

from platform_abc import envs
from platform_abc.detect import ENGINES
from platform_abc.errors import MissingDependency, ResolutionError
from platform_abc.foreign import describe, traceback_text
from platform_abc.qualname import resolve_obj_by_qualname
from platform_abc.resolution import ResolutionSpec, resolve
from platform_abc.resolution_report import ResolutionReport


def main(engine: str, log: str) -> NoReturn:
    """Resolve for an engine and end the process, whatever threads the plugins have started.

    Args:
        engine: a key of `ENGINES`.
        log: the file to which one JSON object a line is appended: steps, then the last word.
    """
    file = Path(log)
    if not os.environ.get(envs.LOGGING_LEVEL):  # what would be logged is in the report
        for name in envs.LOGGERS:
            logging.getLogger(name).addHandler(logging.NullHandler())
    _append(file, step=f"importing the rules of {engine}")
    _append(file, **_last_word(engine, file))
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a plugin may have closed or replaced it
            stream.flush()
    os._exit(0)


def _last_word(engine: str, file: Path) -> dict[str, str]:
    try:
        spec = _spec(engine)
    except MissingDependency as error:
        return {"no_engine": f"{error.distribution} is not installed here (pip install {error.distribution})"}
    except Exception as error:  # noqa: BLE001  (a broken engine; its error is the answer)
        name = "platform-abc" if engine == "native" else engine
        text = f"{name} cannot be imported: {describe(error)}{_hidden_by()}"
        return {"report": ResolutionReport(name, error=text, traceback=traceback_text(error)).to_json()}
    steps: list[str] = []

    def progress(step: str, subject: str) -> None:
        steps.append(f"{step} {subject}")
        _append(file, step=steps[-1])

    try:
        _, report = resolve(spec, progress=progress)
    except ResolutionError as error:
        if error.report is None:
            raise
        report = error.report
    except KeyboardInterrupt as error:  # no terminal reaches this process, so it is a plugin's own
        text = f"KeyboardInterrupt was raised while {steps[-1] if steps else 'starting'}"
        report = ResolutionReport(spec.engine, error=text, traceback=traceback_text(error))
    if engine == "native":
        report = attrs.evolve(report, warnings=(*report.warnings, *envs.validate_environ()))
    if spec.confirm is not None:
        _append(file, step=f"letting {engine} resolve by itself")
        report = _confirmed(report, spec)
    return {"report": report.to_json()}


def _hidden_by() -> str:
    """Say which file was imported in place of our package `platforms`, as an addition to a message."""
    found = getattr(sys.modules.get("platforms"), "__file__", None)
    ours = Path(__file__).resolve().parent.parent / "platforms" / "__init__.py"
    if found is None or Path(found).resolve() == ours:
        return ""
    return (
        f"; {found} hides the package platforms of platform-abc: rename it, or take its folder off PYTHONPATH"
    )


def _spec(engine: str) -> ResolutionSpec:
    function = resolve_obj_by_qualname(ENGINES[engine])
    if not callable(function):
        raise TypeError(f"{ENGINES[engine]} is not a function")
    return cast("ResolutionSpec", function())


def _confirmed(report: ResolutionReport, spec: ResolutionSpec) -> ResolutionReport:
    """Compare the explanation with what the engine itself does; a difference is a warning."""
    if spec.confirm is None:
        return report
    try:
        itself = spec.confirm()
    except Exception as error:  # noqa: BLE001  (the engine's own answer to this machine)
        said = f"{spec.engine} itself raises {describe(error)}"
    else:
        said = "" if itself == report.chosen else f"{spec.engine} itself resolves {itself}"
    return attrs.evolve(report, warnings=(*report.warnings, said)) if said else report


def _append(file: Path, **record: str) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n")
