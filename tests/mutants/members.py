"""Mutants of members as such: kinds, signatures, and members that every run needs."""

from __future__ import annotations

from typing import Any

from tests.mutants.good import HERE, Good


class InstanceMethod(Good):
    """Makes a class method an instance method."""

    def set_device(self, device: Any) -> None:  # type: ignore[override]
        """Accept it."""


class MethodIsProperty(Good):
    """Makes a hook a property."""

    @property
    def get_compile_backend(self) -> str:  # type: ignore[override]
        """Return a name."""
        return "inductor"


class MethodIsNone(Good):
    """Switches a hook off with None."""

    log_warnings = None  # type: ignore[assignment]


class MethodIsAsync(Good):
    """Makes a hook a coroutine function."""

    @classmethod
    async def log_warnings(cls) -> None:  # type: ignore[override]
        """Log nothing."""


class PropertyIsMethod(Good):
    """Makes a property a method."""

    def supported_dtypes(self) -> list[Any]:  # type: ignore[override]
        """Return one dtype."""
        import torch

        return [torch.float32]


class StaticInstead(Good):
    """Uses a static method where the base has a class method, which works as well."""

    @staticmethod
    def set_device(device: Any) -> None:  # type: ignore[override]
        """Accept it."""


class OldPicker(Good):
    """Has the attention picker of an older engine."""

    @classmethod
    def get_attn_backend_cls(cls, head_size: int, dtype: Any) -> str:  # type: ignore[override]
        """Name a backend."""
        return f"{HERE}.Backend"


class OldRequest(Good):
    """Has the request hook of an older engine."""

    @classmethod
    def validate_request(cls, prompt: Any, params: Any, processed_inputs: Any) -> None:  # type: ignore[override]
        """Accept it."""


class SwappedRequest(Good):
    """Has the request hook's parameters in the other order."""

    @classmethod
    def validate_request(cls, params: Any, processed_inputs: Any) -> None:  # type: ignore[override]
        """Accept it."""


class OpenRequest(Good):
    """Takes whatever a request brings."""

    @classmethod
    def validate_request(cls, *args: Any, **kwargs: Any) -> None:
        """Accept it."""


class KeywordOnly(Good):
    """Takes by keyword alone what the base takes by position too."""

    @classmethod
    def get_vit_attn_backend(cls, head_size: int, dtype: Any, *, backend: Any = None) -> Any:  # type: ignore[override]
        """Ask the base."""
        return super().get_vit_attn_backend(head_size, dtype, backend)


class OneMore(Good):
    """Adds an optional parameter of its own."""

    @classmethod
    def get_vit_attn_backend(cls, head_size: int, dtype: Any, backend: Any = None, chip: str = "") -> Any:
        """Ask the base."""
        return super().get_vit_attn_backend(head_size, dtype, backend)


class NoSeed(Good):
    """Declines a hook that every worker calls without a guard."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Decline."""
        raise NotImplementedError


class NoPciIds(Good):
    """Declines a hook that no plain run calls."""

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """Decline."""
        raise NotImplementedError


class SeedByHelper(Good):
    """Declines a hook that every worker calls, by way of a helper."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Ask the helper."""
        cls._later("manual_seed_all")

    @staticmethod
    def _later(name: str) -> None:
        raise NotImplementedError(f"{name} will come")


class NoFirstParameter(Good):
    """Forgot `cls`."""

    @classmethod
    def log_warnings() -> None:  # type: ignore[misc]
        """Log nothing."""
