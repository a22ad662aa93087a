"""Which simulated devices there are: all that a detector may know, without torch."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "DUMMY_PLATFORM_DEVICES"
"""How many devices to simulate: unset means one, 0 none."""

MEMORY_BYTES: Final = 1 << 30
"""Memory of one device in bytes."""


def count() -> int:
    """Return the number of devices.

    Raises:
        ValueError: the variable is set to something that is not a whole number from 0 on.
    """
    text = os.environ.get(VARIABLE, "1")
    if not text.isdecimal():
        raise ValueError(f"{VARIABLE}={text!r}: expected a whole number, 0 for no device")
    return int(text)
