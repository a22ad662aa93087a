"""What kind of system this process runs on, as far as several modules ask it."""

from __future__ import annotations

import os


def in_wsl() -> bool:
    """Say whether this is the Windows Subsystem for Linux, by the kernel's name."""
    return hasattr(os, "uname") and "microsoft" in " ".join(os.uname()).lower()
