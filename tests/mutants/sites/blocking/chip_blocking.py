"""A platform whose module puts nothing in the place of a module of the engine."""

from __future__ import annotations

import sys
from typing import Any, cast

from tests.mutants.good import Good

cast("dict[str, Any]", sys.modules)["reference_engine.executor"] = None


class Blocking(Good):
    """The platform."""
