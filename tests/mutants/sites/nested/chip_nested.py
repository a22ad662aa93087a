"""A platform package whose detector asks for the current platform, which is just being resolved."""

from __future__ import annotations

from tests.mutants.good import Good


def detect() -> str | None:
    """Ask which platform there is."""
    import platforms

    return "chip_nested.Nested" if platforms.current_platform is not None else None


class Nested(Good):
    """The platform that the detector names."""
