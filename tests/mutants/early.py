"""Mutants that touch the device, or the engine, before a worker has started."""

from __future__ import annotations

from typing import Any

from tests.mutants.good import Good


class HookAsksRuntime(Good):
    """Asks the device's runtime for its current device in a config hook."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ask it."""
        import torch

        super().check_and_update_config(vllm_config)
        try:
            first = torch.cuda.current_device() == 0
        except Exception:
            first = True
        vllm_config.additional_config = {**(vllm_config.additional_config or {}), "chip_first": first}


class HookAllocates(Good):
    """Makes a tensor on the device in a config hook."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Make it."""
        import torch

        super().check_and_update_config(vllm_config)
        try:
            torch.zeros(1, device="cuda")
        except Exception:
            vllm_config.scheduler_config.max_num_seqs = min(vllm_config.scheduler_config.max_num_seqs, 64)


class HookCounts(Good):
    """Asks in a config hook only what opens no runtime."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Ask it."""
        import torch

        super().check_and_update_config(vllm_config)
        if torch.cuda.is_available() and torch.cuda.device_count() > 8:
            raise ValueError("more than 8 chips")


class NameByRuntime(Good):
    """Asks the device's runtime for the name."""

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Ask it."""
        import torch

        try:
            return torch.cuda.get_device_name(device_id)
        except Exception:
            return "CHIP-9"


class _FromEngine:
    """A text that is made when it is read, on the class as on an instance."""

    def __get__(self, instance: object, owner: type) -> str:
        """Read it in a part of the engine."""
        from reference_model.compilation import __name__ as name

        return "eager" if name else "inductor"


class _FromEngineOrNot:
    """The same, for a process that has not got that part yet."""

    def __get__(self, instance: object, owner: type) -> str:
        """Read it in a part of the engine, if it is there."""
        try:
            from reference_model.compilation import __name__ as name
        except ImportError:
            name = ""
        return "eager" if name else "aot_eager"


class KeyByEngine(Good):
    """Takes a text that the engine reads at import from a part of the engine."""

    simple_compile_backend = _FromEngine()  # type: ignore[assignment]


class KeyPlainly(Good):
    """Prefers a text of the engine, and bears that the part of the engine is not there."""

    simple_compile_backend = _FromEngineOrNot()  # type: ignore[assignment]
