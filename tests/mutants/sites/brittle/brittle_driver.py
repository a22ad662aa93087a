"""A vendor's library, which is installed here."""

from __future__ import annotations


def count() -> int:
    """The devices of this machine."""
    return 1
