"""A plugin that puts the platform under test into an engine, in whatever process it is resolved.

It is installed for one run, by a folder on the import path. What the vendor's own entry points do, it lets
them do; only the answer is always the platform under test.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import conformance
from conformance.engines.hooks_boot import note, told, watch, watch_errors

SPEC: Final = "CONFORMANCE_BOOT_PLATFORM"
"""Holds, as JSON, the module, the class, the engine, and name and value of the vendor's general plugins."""

NAME: Final = "conformance_boot"
MODULE: Final = "conformance_boot_plugin"
GROUPS: Final = (
    ("platform_abc.platform_plugins", "platform_abc.general_plugins"),
    ("vllm.platform_plugins", "vllm.general_plugins"),
)
"""The groups of each engine: detectors, and what is run once the platform is there."""

_SNAPSHOTS: Final = {
    "native": "platform_abc.config:snapshot",
    "vllm": "conformance.engines.vllm_snapshot:snapshot",
}
"""What flattens a config of each engine; the whole adapter would cost every process its import."""

_SOURCE: Final = """\
import importlib.util
import sys

if importlib.util.find_spec("conformance") is None:
    sys.path.append({kit!r})
from conformance.engines.plugin_boot import __getattr__, detect, general
"""


def install(folder: Path) -> None:
    """Write the plugin, as an installed distribution, into a folder that is to be on the import path."""
    kit = str(Path(next(iter(conformance.__path__))).parent)
    (folder / f"{MODULE}.py").write_text(_SOURCE.format(kit=kit), encoding="utf-8")
    metadata = folder / f"{MODULE}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {MODULE.replace('_', '-')}\nVersion: 1.0\n", encoding="utf-8"
    )
    points = "".join(
        f"[{detectors}]\n{NAME} = {MODULE}:detect\n[{general}]\n{NAME} = {MODULE}:general\n"
        for detectors, general in GROUPS
    )
    (metadata / "entry_points.txt").write_text(points, encoding="utf-8")


def detect() -> str:
    """Answer with the platform under test, after the vendor's own detectors have been asked."""
    note("detector", "step")
    for detector in _detectors():
        _run(detector)
    return f"{MODULE}.Platform"


def general() -> None:
    """Run the general plugins of the vendor's distribution, which the filter by names keeps out."""
    for name, value in json.loads(os.environ[SPEC])["general"]:
        _run(importlib.metadata.EntryPoint(name, value, ""))
    note("general plugins", "step")


def _run(point: importlib.metadata.EntryPoint) -> None:
    """Run one entry point; what it raises has been told by the check of it."""
    try:
        point.load()()
    except Exception as error:
        note(point.value, "plugin raised", **told(error))


def _detectors() -> Iterator[importlib.metadata.EntryPoint]:
    """The detectors that lie in the package of the platform under test."""
    spec: dict[str, Any] = json.loads(os.environ[SPEC])
    top = str(spec["module"]).partition(".")[0]
    detectors, _ = GROUPS[1 if spec["engine"] == "vllm" else 0]
    for point in importlib.metadata.entry_points(group=detectors):
        if point.name != NAME and point.value.partition(":")[0].partition(".")[0] == top:
            yield point


def __getattr__(name: str) -> Any:
    """Give the platform's class, watched, under the name that the detector answers with."""
    if name != "Platform":
        raise AttributeError(name)
    spec = json.loads(os.environ[SPEC])
    watch_errors(spec["engine"])
    cls: Any = importlib.import_module(spec["module"])
    for part in str(spec["qualname"]).split("."):
        cls = getattr(cls, part)
    note("import of the platform's module", "step")
    if "__conformance_watched__" not in vars(cls):
        module, _, function = _SNAPSHOTS[spec["engine"]].partition(":")
        watch(cls, getattr(importlib.import_module(module), function))
        cls.__conformance_watched__ = True
    if spec["engine"] != "vllm":
        return cls

    def make() -> object:
        platform: object = cls()
        note("making of the platform object", "step")
        return platform

    return make
