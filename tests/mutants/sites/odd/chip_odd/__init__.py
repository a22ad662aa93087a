"""A platform package with habits that are unusual and right: variables of its own, a log line, lazy imports."""

from __future__ import annotations

import logging
import os
from typing import Any

os.environ.setdefault("CHIP_ODD_MODE", "fast")
logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())
logger.setLevel(logging.INFO)


def __getattr__(name: str) -> Any:
    if name == "Odd":
        from chip_odd.platform import Odd

        return Odd
    raise AttributeError(name)
