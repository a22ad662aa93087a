"""A platform package that starts a thread when it is imported."""

from __future__ import annotations

import threading

from tests.mutants.good import Good

_stop = threading.Event()
threading.Thread(target=_stop.wait, name="chip-health", daemon=True).start()


def detect() -> str | None:
    """Say that the chip is here."""
    return "chip_watching.Watching"


class Watching(Good):
    """The platform that the detector names."""
