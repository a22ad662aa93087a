"""A platform package whose detector says yes on every machine, also where the vendor's library is not."""

from __future__ import annotations


def detect() -> str | None:
    """Say yes."""
    return "chip_claims.platform.Claims"
