"""The conformance kit: judges a platform class against the contract, check by check."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.api import check_platform

__all__ = ["check_platform"]


def __getattr__(name: str) -> object:
    """Import `check_platform` on first use: a run of pytest needs none of it."""
    if name == "check_platform":
        from conformance.api import check_platform

        return check_platform
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
