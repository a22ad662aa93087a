"""One fresh interpreter that shows how a platform is found and imported: scenes in forks, told as data.

The first scenes find a bare interpreter. Then the engine's interface is imported, once, and the others
find that. Checks of several families read the same answer.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from conformance import stubs
from conformance.checks import _absence, _asking, _watch
from conformance.checks._runtime import Runtime
from conformance.checks._scenes import Scene, play, spell
from conformance.context import locate
from conformance.engines.scenery import SCENERY, Scenery


@attrs.frozen
class _Stage:
    """What every scene of a run is about."""

    scenery: Scenery
    module: str
    qualname: str
    device_type: str
    own: Mapping[str, str]
    vendors: tuple[str, ...]

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]

    @property
    def tops(self) -> tuple[str, ...]:
        return ("torch", *self.scenery.tops)

    @property
    def vendor(self) -> set[str]:
        """The top-level packages of the vendor."""
        return {self.package, *self.vendors, *map(_asking.top, self.own.values())} - set(self.tops)

    def cls(self) -> Any:
        found: Any = importlib.import_module(self.module)
        for name in self.qualname.split("."):
            found = getattr(found, name)
        return found


def observe(
    engine: str,
    module: str,
    qualname: str,
    device_type: str,
    bases: Sequence[str],
    in_tree: bool,
    entries: bool,
    limit: float,
    stand_ins: Sequence[str] = (),
) -> dict[str, Any]:
    """Play every scene of a platform, in this fresh interpreter.

    Args:
        engine: the adapter's name.
        module: of the platform's class.
        qualname: of the class, in the module.
        device_type: of the platform, as text.
        bases: the top-level packages of the class's bases, the vendor's own as much as that of the class.
        in_tree: the engine itself ships the class, and has no entry point for it.
        entries: import the whole engine under the platform too, where that is the platform of this machine.
        limit: seconds that each scene may take.
        stand_ins: the modules that stand-ins take the place of; then only imports are shown, and no detector
            is asked, which would take a stand-in for the device.

    Returns:
        `scenes`, what `conformance.checks._scenes.play` gives; `own`, the platform's entry points; and
        `places`, where the metadata have them.
    """
    from conformance.engines import adapter

    scenery, engine_adapter = SCENERY[engine], adapter(engine)
    scenery.restore()
    if stand_ins:
        stage = _Stage(scenery, module, qualname, device_type, {}, tuple(bases))
        return {"own": {}, "places": {}, "scenes": _with_stand_ins(stage, stand_ins, limit, in_tree=in_tree)}
    metadata: Any = importlib.metadata
    metadata.entry_points = functools.cache(metadata.entry_points)  # read at each step of a nested resolution
    os.chdir(tempfile.mkdtemp())
    spelled = [f"{module}.{qualname}", f"{module}:{qualname}"]
    known = engine_adapter.detectors
    scene = {"own": lambda: _asking.own_detectors(scenery, module, {} if in_tree else known(), spelled)}
    asked = play(scene, limit)["own"]
    told: Any = asked.get("said") or [{}, [], {}]
    own: dict[str, str] = {} if in_tree else told[0]
    shipped: list[str] = told[1]
    places: dict[str, str] = told[2]
    stage = _Stage(scenery, module, qualname, device_type, own, (*bases, *shipped))
    bare: dict[str, Scene] = {}
    for name, value in own.items():
        bare[f"ask {name}"] = functools.partial(_asking.ask, value, scenery.group)
    found = play(bare, limit)
    if any("died" in told for told in found.values()):
        return {"own": own, "places": places, "scenes": found}
    chosen = _speaker(stage, found)
    if not in_tree:
        found |= _orders(stage, chosen, limit)
    resolve = engine_adapter.detect()
    if scenery.light:
        found |= play({"resolve": lambda: _resolve(stage, resolve, entries=False)}, limit)
    for name in (scenery.interface, "torch"):
        importlib.import_module(name)
    warm: dict[str, Scene] = {
        "entries" if scenery.light else "resolve": lambda: _resolve(stage, resolve, entries=entries),
        "module": lambda: _module(stage),
        "early": lambda: _early(stage),
        **{f"activate {name}": functools.partial(_activate, stage, value) for name, value in own.items()},
    }
    for name, value in own.items():
        warm[f"crowded {name}"] = functools.partial(_asking.crowded, value, scenery.group)
    found |= play(warm, limit, at_once=2)
    found.setdefault("entries", found["resolve"])
    found |= play(_second_round(stage, found), limit)
    return {"own": own, "places": places, "scenes": found}


def _orders(stage: _Stage, speaker: str, limit: float, stand_ins: Sequence[str] = ()) -> dict[str, Any]:
    """Import the vendor's package before the engine, and the platform's module, as long as nothing is wrong."""
    found: dict[str, Any] = {}
    for one, first in (("package first", stage.package), ("module first", stage.module)):
        found |= play({one: functools.partial(_first, stage, first, speaker, stand_ins)}, limit)
        if found[one].get("said", {"during": "?"})["during"] or first == stage.module:
            break  # the module's import begins with that of its package
    return found


def _with_stand_ins(
    stage: _Stage, stand_ins: Sequence[str], limit: float, *, in_tree: bool
) -> dict[str, dict[str, Any]]:
    """The scenes that import the platform and ask no detector of its own."""
    found: dict[str, dict[str, Any]] = {} if in_tree else _orders(stage, "", limit, stand_ins)
    for name in (stage.scenery.interface, "torch"):
        importlib.import_module(name)
    stubs.put(stand_ins)
    found |= play({"module": lambda: _module(stage)}, limit)
    if added := _added(found["module"]):
        found |= play({"module of a user": lambda: _module(stage, added)}, limit)
    return found


def _second_round(stage: _Stage, found: dict[str, dict[str, Any]]) -> dict[str, Scene]:
    """The scenes that follow from what others showed: with a user's variables, and without a library."""
    scenes: dict[str, Scene] = {}
    if added := _added(found["module"]):
        scenes["module of a user"] = functools.partial(_module, stage, added)
    tops = {*stage.vendor, *stage.tops}
    for name, value in stage.own.items():
        seen = found[f"activate {name}"]
        if added := _added(seen):
            scenes[f"activate {name} of a user"] = functools.partial(_activate, stage, value, added)
        asked = _absence.libraries(_imported(seen, "loading", "calling"), tops)
        needed = _absence.libraries(_imported(found["module"]), tops)
        seen.get("said", {}).update(libraries=asked, needed=needed)
        for how in _absence.HOWS if asked or needed else ():
            gone = sorted({*asked, *needed}) if how == "absent" else asked
            if gone:
                scenes[f"{how} {name}"] = functools.partial(_without, stage, value, how, gone)
    return scenes


# --------------------------------------------------------------------------------- import orders


def _speaker(stage: _Stage, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The detector that speaks for the class: the one that names it here, else the only one; empty if none."""
    ours = _spellings(stage)
    for name in stage.own:
        if ours & set(found[f"ask {name}"].get("said", {}).get("answers", ())):
            return name
    sound = [name for name in stage.own if found[f"ask {name}"].get("said", {}).get("doing") == "calling"]
    return sound[0] if len(sound) == len(stage.own) == 1 else ""


def _spellings(stage: _Stage) -> set[str]:
    return {f"{stage.module}.{stage.qualname}", f"{stage.module}:{stage.qualname}"}


@contextlib.contextmanager
def _here(stage: _Stage, speaker: str) -> Generator[list[str]]:
    """Let one detector say yes, as on a machine with the device, and no other; their import stays real.

    Yields:
        What loading it raised.
    """
    entry_point: Any = importlib.metadata.EntryPoint
    original = entry_point.load
    raised: list[str] = []
    spelled = f"{stage.module}.{stage.qualname}"

    def load(point: importlib.metadata.EntryPoint) -> Any:
        if point.group != stage.scenery.group:
            return original(point)
        if point.name != speaker:
            return lambda: None
        try:
            original(point)
        except Exception as error:
            raised.append(spell(error))
            raise
        return lambda: spelled

    os.environ.pop(stage.scenery.target, None)
    entry_point.load = load
    try:
        yield raised
    finally:
        entry_point.load = original


def _first(stage: _Stage, first: str, speaker: str, stand_ins: Sequence[str] = ()) -> dict[str, Any]:
    """Import a module of the vendor before anything of the engine, with stand-ins in place.

    Returns:
        `error` of that import and its `place`; `during`, the class that was the engine's platform when it
        ended, empty where none was chosen; `engine`, whether it has brought in the engine, `loading`, what
        the detector's import raised, `after`, the class that the engine chooses then, and `refused`,
        the error of that.
    """
    scenery = stage.scenery
    said: dict[str, Any] = {"error": "", "place": "", "during": "", "after": "", "refused": "", "nested": 0}
    stubs.put(stand_ins)
    with _here(stage, speaker) as raised:
        try:
            importlib.import_module(first)
        except (Exception, SystemExit) as error:
            places = _asking.places(error)
            return {**said, "error": spell(error), "place": places[-1] if places else ""}
        said["during"] = _class(scenery.resolved())
        said["engine"] = scenery.interface in sys.modules
        if speaker and (said["engine"] or scenery.light):
            said.update(_chosen(scenery))
        said["loading"] = raised
    return said


def _chosen(scenery: Scenery) -> dict[str, Any]:
    with scenery.counted() as nested:
        try:
            return {"after": _class(scenery.current()), "refused": "", "nested": nested()}
        except (Exception, SystemExit) as error:
            return {"after": "", "refused": spell(error), "nested": nested()}


def _class(platform: object | None) -> str:
    return "" if platform is None else f"{type(platform).__module__}.{type(platform).__qualname__}"


def _resolve(stage: _Stage, function: str, *, entries: bool) -> dict[str, Any]:
    """Resolve as the engine does, with the vendor's real detectors; then import the whole engine under it.

    Returns:
        What the adapter's `detect` gives, `nested`, and `entries`: by name of the module the error of its
        import, None where it worked. `asked_again` is what each detector answers after that.
    """
    module, _, name = function.partition(":")
    with stage.scenery.counted() as nested:
        said: dict[str, Any] = dict(getattr(importlib.import_module(module), name)())
        said["nested"] = nested()
    said["entries"], said["asked_again"] = {}, {}
    ours = f"{stage.module}.{stage.qualname}"
    if entries and not stage.own and said["resolved"] != ours:
        try:
            stage.scenery.put(stage.cls()())
        except (Exception, SystemExit) as error:
            said["entries"] = {ours: [spell(error), ""]}
            return said
    elif not entries or said["resolved"] != ours:
        return said
    runtime = Runtime(stage.device_type)
    for entry in stage.scenery.known_entries():
        said["entries"][entry] = _import(entry, stage)
    said["runtime"] = runtime.take()
    for detector, value in stage.own.items():
        said["asked_again"][detector] = _asking.ask(value, stage.scenery.group)
    return said


def _import(name: str, stage: _Stage) -> list[str] | None:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        own = [one for one in _asking.places(error) if not _of_engine(one, stage)]
        return [spell(error), own[-1] if own else ""]
    return None


def _of_engine(place: str, stage: _Stage) -> bool:
    for top in stage.tops:
        folder = Path(str(getattr(sys.modules.get(top), "__file__", None) or top)).parent
        if place.startswith(f"{folder}{os.sep}"):
            return True
    return False


# --------------------------------------------------------------- what an import or a call leaves


def _watched(stage: _Stage, files: _watch.Files, runtime: Runtime, act: Callable[[], None]) -> dict[str, Any]:
    """Run something of the vendor's and say what it left in the process."""
    before, memory, known = _watch.take(stage.tops), _watch.resident(), set(_watch.open_devices())
    others = set(_watch.threads())
    files.start()
    error, place = "", ""
    try:
        act()
    except (Exception, SystemExit) as raised:
        places = _asking.places(raised)
        error, place = spell(raised), places[-1] if places else ""
    written = files.stop()
    after = _watch.take(stage.tops)
    own = stage.vendor
    return {
        "error": error,
        "place": place,
        "env": _watch.env_changes(before, after),
        "logs": _watch.log_changes(before, after, own, stage.scenery.tops),
        "settings": _watch.setting_changes(before, after),
        "code": _watch.code_changes(before, after),
        "modules": sorted(after.modules - before.modules),
        "files": written,
        "threads": [one for one in _watch.threads() if one not in others],
        "memory": max(0, _watch.resident() - memory),
        "devices": [one for one in _watch.open_devices() if one not in known],
        "runtime": runtime.take(),
    }


def _activate(stage: _Stage, value: str, preset: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Import and call a detector where the engine's interface is there, as the engine does.

    Args:
        preset: variables that a user has set.

    Returns:
        `loading` and `calling`, what each left, the latter absent where the former failed; `answer`;
        `place` of the detector; `users`, what became of the preset variables.
    """
    os.environ.update(preset or {})
    files, runtime = _watch.Files(), Runtime(stage.device_type)
    held: list[Any] = []

    def load() -> None:
        held.append(_asking.load(value, stage.scenery.group))

    def call() -> None:
        held.extend([held[0](), held[0]()])

    with _absence.asked_for(stage.vendor) as imported:
        said: dict[str, Any] = {"loading": _watched(stage, files, runtime, load), "answer": None}
        if held and callable(held[0]):
            said["calling"] = _watched(stage, files, runtime, call)
            said["answer"] = _asking.plain(held[1]) if len(held) > 1 else None
    said["imported"] = sorted(imported)
    said["place"] = locate(held[0]) if held else ""
    return {**said, "users": _changed(preset)}


def _module(stage: _Stage, preset: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Import the platform's module and make the instance, where the engine's interface is there.

    Args:
        preset: variables that a user has set.

    Returns:
        What that left, `resolved`, the class that it made the engine choose, empty where none, and `users`.
    """
    os.environ.update(preset or {})
    files, runtime = _watch.Files(), Runtime(stage.device_type)
    with _absence.asked_for(stage.vendor) as imported:
        said = _watched(stage, files, runtime, lambda: stage.cls()())  # noqa: PLW0108  (it imports)
    said["imported"] = sorted(imported)
    return {**said, "resolved": _class(stage.scenery.resolved()), "users": _changed(preset)}


def _changed(preset: Mapping[str, str] | None) -> dict[str, str | None]:
    """The variables that a user had set and that have lost the user's value."""
    now = {name: os.environ.get(name) for name in preset or {}}
    return {name: now[name] for name, value in (preset or {}).items() if value not in (now[name] or "")}


def _added(said: Mapping[str, Any]) -> dict[str, str]:
    """For each variable that a scene added: another value, which a user could have set."""
    told: Any = said.get("said") or {}
    changes: dict[str, Any] = {}
    parts: list[Any] = [told, told.get("loading"), told.get("calling")]
    for part in filter(None, parts):
        changes.update(part.get("env", {}))
    return {name: _another(new) for name, (old, new) in changes.items() if old is None and new}


def _another(value: str) -> str:
    return str(int(value) + 1) if value.isdigit() else f"{value}-user"


# -------------------------------------------------------------------------- without the library


def _imported(told: Mapping[str, Any], *parts: str) -> list[str]:
    """The packages that the vendor's code itself imported, of those that were not there before."""
    said: Any = told.get("said") or {}
    new: set[str] = set()
    looked: list[Any] = [said.get(one) for one in parts] if parts else [said]
    for part in filter(None, looked):
        modules: list[str] = part.get("modules", [])
        new.update(name.partition(".")[0] for name in modules)
    return sorted(new & set(said.get("imported", ())))


def _without(stage: _Stage, value: str, how: str, libraries: Sequence[str]) -> dict[str, Any]:
    """Ask a detector while the vendor's libraries are absent or broken; where it says yes, try the platform.

    Returns:
        As `_ask`, and `platform`, what importing the platform raised then; empty where it worked.
    """
    _absence.HOWS[how](libraries)
    said = _asking.ask(value, stage.scenery.group)
    said["platform"] = ""
    if how == "absent" and any(said["answers"]):
        try:
            stage.cls()()
        except (Exception, SystemExit) as error:
            said["platform"] = spell(error)
    return said


# ------------------------------------------------------------------------- while the engine imports


def _early(stage: _Stage) -> dict[str, Any]:
    """Ask the platform what the engine asks while it is still being imported.

    Returns:
        By member the error that it raised, and its place; `failed`, where there is no platform to ask.
    """
    try:
        platform = stage.cls()()
    except (Exception, SystemExit) as error:
        return {"failed": spell(error), "raised": {}}
    base = importlib.import_module(stage.scenery.base[0])
    known = getattr(base, stage.scenery.base[1])
    runtime = Runtime(stage.device_type)
    sys.meta_path.insert(0, _absence.Late(stage.scenery.late))
    raised: dict[str, list[str]] = {}
    for name in stage.scenery.early:
        if not hasattr(known, name) and name not in inspect.get_annotations(known):
            continue
        try:
            answer = getattr(platform, name)
            if callable(answer):
                answer()
        except NotImplementedError:
            continue
        except (Exception, SystemExit) as error:
            own = [one for one in _asking.places(error) if not one.startswith(_absence.__file__)]
            raised[name] = [spell(error), own[-1] if own else ""]
    return {"failed": "", "raised": raised, "runtime": runtime.take()}
