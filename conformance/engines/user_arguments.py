"""The user's own arguments for the engine that level `engine` boots: `[tool.platform-abc.engine-arguments]`.

A device may need a model of its own, with real weights or other sizes, before an engine boots on it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from typing import Any, Final

from conformance.problems import UsageProblem, did_you_mean

KEY: Final = "engine-arguments"
"""The name of the table in a configuration file."""

_VARIABLE: Final = "CONFORMANCE_ENGINE_ARGUMENTS"
"""Holds the table, as JSON, for every child of a run."""


def variables(arguments: Mapping[str, object]) -> dict[str, str]:
    """What the environment of a run's children has to say; empty without arguments."""
    return {_VARIABLE: json.dumps(arguments)} if arguments else {}


def given() -> dict[str, Any]:
    """The user's arguments, by name, in a child of a run."""
    arguments: dict[str, Any] = json.loads(os.environ.get(_VARIABLE, "{}"))
    return arguments


def require_known(names: Collection[str]) -> None:
    """Refuse arguments that the engine does not have.

    Args:
        names: of all arguments of the installed engine.

    Raises:
        UsageProblem: there is another one.
    """
    for name in given():
        if name not in names:
            raise UsageProblem(
                f"{KEY} names {name!r}, which the installed engine has no argument of{did_you_mean(name, names)}"
            )
