"""Mutants of pickling and spawn."""

from __future__ import annotations

import threading
from typing import Any

from tests.mutants.good import Good

_MODE = {"gather": True}


class HoldsLock(Good):
    """Keeps a lock on the instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()


class HoldsText(Good):
    """Keeps plain text on the instance."""

    def __init__(self) -> None:
        self._note = "chip"


class GatherByHook(Good):
    """Answers from a global that only the front end's hook has changed."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Change it."""
        super().check_and_update_config(vllm_config)
        _MODE["gather"] = False

    @classmethod
    def use_all_gather(cls) -> bool:
        """Answer from it."""
        return _MODE["gather"]


class GatherAlways(Good):
    """Answers the same in every process."""

    @classmethod
    def use_all_gather(cls) -> bool:
        """Say no."""
        return False
