"""Mutants that change the process around them, and right twins that leave it alone."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.mutants.good import Good

_DONE = threading.Event()


class ChangesFolder(Good):
    """Goes to another working directory."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Go there."""
        super().check_and_update_config(vllm_config)
        os.chdir("/")


class ChangesDtype(Good):
    """Sets torch's default dtype for everyone."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        import torch

        super().check_and_update_config(vllm_config)
        torch.set_default_dtype(torch.bfloat16)


class LeavesThread(Good):
    """Starts a thread that keeps the process from ending."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Start it."""
        super().check_and_update_config(vllm_config)
        threading.Thread(target=_DONE.wait, name="chip-monitor").start()


class Tidy(Good):
    """Uses a thread pool, a daemon thread, an exit handler, and torch's dtype for a moment."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Use them."""
        import torch

        super().check_and_update_config(vllm_config)
        pool = ThreadPoolExecutor(1)
        pool.submit(int).result()
        atexit.register(pool.shutdown)
        threading.Thread(target=_DONE.wait, daemon=True).start()
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float16)
        torch.set_default_dtype(before)
        logging.getLogger("chip").addHandler(logging.NullHandler())


class KernelsChangeDtype(Good):
    """Sets torch's default dtype when its kernels are imported."""

    @classmethod
    def import_kernels(cls) -> None:
        """Set it."""
        import torch

        torch.set_default_dtype(torch.float16)


class PatchesTorch(Good):
    """Replaces a function of torch."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Replace it."""
        import torch

        super().check_and_update_config(vllm_config)
        torch.cpu.synchronize = lambda device=None: None


class PatchesMethod(Good):
    """Replaces a method of the engine's LoRA layer, in a module that the hook itself imports."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Replace it."""
        from reference_model.lora import AdapterSlots

        super().check_and_update_config(vllm_config)
        AdapterSlots.set_adapter = lambda self, slot, lora_a, lora_b: None  # type: ignore[method-assign]


class SilencesLogs(Good):
    """Turns everyone's log messages off."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Turn them off."""
        super().check_and_update_config(vllm_config)
        logging.disable(logging.WARNING)
