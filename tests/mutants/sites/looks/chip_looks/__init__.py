"""A platform package whose detector looks for the vendor's library, and bears what can be wrong with it."""

from __future__ import annotations

import logging


def detect() -> str | None:
    """Say yes where the library counts a device."""
    try:
        import looks_driver

        return "chip_looks.platform.Looks" if looks_driver.count() else None
    except Exception as error:
        logging.getLogger(__name__).debug("no chip: %s", error)
        return None
