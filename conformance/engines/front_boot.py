"""The process that a user of the engine would have: boots the engine, generates, closes it, and ends."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from conformance.engines.hooks_boot import FOLDER, FRONT, note, told

RESULT: Final = "result.json"
"""What was generated, or what was raised; written once the engine is closed."""

CLOSING: Final = "closing"
"""The step that is noted when everything has been generated."""


def main() -> None:
    """Run the engine's `drive` with the settings on the command line."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    os.environ[FRONT] = str(os.getpid())
    note("start", "step")
    module, _, name = str(settings["drive"]).partition(":")
    try:
        result = {"answer": getattr(importlib.import_module(module), name)(settings["layout"])}
    except BaseException as error:
        result = {"error": told(error)}
    folder = Path(os.environ[FOLDER])
    (folder / "result.part").write_text(json.dumps(result, default=repr), encoding="utf-8")
    (folder / "result.part").rename(folder / RESULT)
