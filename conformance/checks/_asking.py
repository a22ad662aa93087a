"""Whose detectors are the platform's own, and what they answer when they are asked in this process."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, cast

from conformance.checks._scenes import spell
from conformance.context import locate
from conformance.engines import own_points
from conformance.engines.scenery import Scenery

_HERE: Final = str(Path(__file__).parent)
_CALLS: Final = 3
_OTHERS: Final = ("numpy", "transformers", "ray")
"""What engines import beside torch; an empty module stands in where one is not installed."""


def own_detectors(
    scenery: Scenery, module: str, known: Mapping[str, str], spelled: Collection[str]
) -> tuple[dict[str, str], list[str], dict[str, str]]:
    """The entry points that the platform's own package or distribution brings, as far as they are allowed.

    Args:
        module: of the platform's class.
        known: the values of the allowed entry points, by name.
        spelled: how a detector names the class; where nothing leads into its package, whoever answers that.

    Returns:
        Their values by name, the top-level packages that the same distributions ship, and `file:line` of
        each in its distribution's metadata.
    """
    home = own_points.home(module)
    found: dict[str, str] = {}
    shipped: set[str] = set()
    places: dict[str, str] = {}
    for point in importlib.metadata.entry_points(group=scenery.group):
        if known.get(point.name) != point.value:
            continue
        if own_points.leads_into(home, point.value) or own_points.ships(point.dist, module):
            found[point.name] = point.value
            places[point.name] = _written(point)
            files = point.dist.files or () if point.dist is not None else ()
            shipped |= {str(one.parts[0]).removesuffix(".py") for one in files if str(one).endswith(".py")}
    if not found:
        for point in importlib.metadata.entry_points(group=scenery.group):
            if known.get(point.name) == point.value and _names(point, spelled):
                found[point.name], places[point.name] = point.value, _written(point)
    return found, sorted(shipped), places


def _names(point: importlib.metadata.EntryPoint, spelled: Collection[str]) -> bool:
    """Say whether a detector of some other package answers the class; this process asks it and ends."""
    with contextlib.suppress(Exception):
        return point.load()() in spelled
    return False


def _written(point: importlib.metadata.EntryPoint) -> str:
    """`file:line` of an entry point in the metadata of its distribution; empty where it cannot be told."""
    folder: Any = getattr(point.dist, "_path", None)
    if folder is None:
        return ""
    file = Path(str(folder), "entry_points.txt")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((f"{file}:{number}" for number, line in enumerate(lines, 1) if point.value in line), "")


def load(value: str, group: str) -> Any:
    return importlib.metadata.EntryPoint("asked", value, group).load()


def ask(value: str, group: str) -> dict[str, Any]:
    """Import a detector and call it a few times.

    Returns:
        `answers` and their `types`; the `error` that it raised, `doing`, at what, `reached`, whether its
        own code ran by then, and `place`, of the error or of the detector; `callable`.
    """
    said: dict[str, Any] = {
        "answers": [],
        "types": [],
        "error": "",
        "place": "",
        "reached": True,
        "doing": "importing",
        "callable": True,
    }
    try:
        detector = load(value, group)
        said["doing"] = "calling"
        said["place"] = locate(detector) or locate(_call_of(detector))
        said["callable"] = callable(detector)
        if not callable(detector):
            said["types"] = [type(detector).__name__]
            return said
        for _ in range(_CALLS):
            answer = detector()
            said["answers"].append(plain(answer))
            said["types"].append("str" if isinstance(answer, str) else type(answer).__name__)
    except (Exception, SystemExit) as error:
        said["error"] = spell(error)
        inside = places(error)
        said["reached"] = bool(inside)
        said["place"] = inside[-1] if inside else said["place"]
    return said


def _call_of(detector: Any) -> Any:
    """What a callable object runs when it is called."""
    return inspect.getattr_static(cast("Any", type(detector)), "__call__", None)


def places(error: BaseException) -> list[str]:
    """`file:line` of the frames of an exception that are neither the kit's nor the import system's."""
    found: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        own = file.startswith(_HERE) or "importlib" in file.split("/")
        if not own and not file.startswith("<"):
            found.append(f"{file}:{trace.tb_lineno}")
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        found.append(f"{error.filename}:{error.lineno}")
    return found


def top(value: str) -> str:
    """The top-level package that an entry point leads to."""
    return value.partition(":")[0].partition(".")[0].strip()


def plain(answer: Any) -> str | None:
    if answer is None:
        return None
    return str(answer) if isinstance(answer, str) else f"{answer!r:.100} ({type(answer).__name__})"


def crowded(value: str, group: str) -> dict[str, Any]:
    """Ask a detector where others have imported what engines import before they ask."""
    for name in _OTHERS:
        try:
            known = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            known = True
        if not known:
            sys.modules[name] = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None))
        elif name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    return ask(value, group)
