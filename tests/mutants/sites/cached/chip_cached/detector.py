"""The detector; it is right."""

from __future__ import annotations


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_cached.platform.Cached"
