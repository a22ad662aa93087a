"""A platform package whose body asks for the current platform where nobody has imported the engine yet."""

from __future__ import annotations

import sys

if "platforms" not in sys.modules:
    from platforms import current_platform

    print("running on", current_platform.device_name)


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_banner.platform.Banner"
