"""Mutants of kernel hooks, capabilities and device questions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tests.mutants.good import Good


class KernelsOnce(Good):
    """Registers its kernels without a look at whether they are there."""

    _loaded: list[str] = []

    @classmethod
    def import_kernels(cls) -> None:
        """Register them."""
        if cls._loaded:
            raise RuntimeError("operator chip::norm is registered already")
        cls._loaded.append("chip::norm")


class KernelsMissing(Good):
    """Imports a compiled module that was not built."""

    @classmethod
    def import_ir_kernels(cls) -> None:
        """Import it."""
        import chip_kernels_not_built  # type: ignore[import-not-found]  # noqa: F401


class KernelsAnyTime(Good):
    """Registers its kernels once."""

    _loaded: list[str] = []

    @classmethod
    def import_kernels(cls) -> None:
        """Register them."""
        if not cls._loaded:
            cls._loaded.append("chip::norm")


class LoaderSwallows(Good):
    """Wraps the weight loader without calling it."""

    @classmethod
    def make_synced_weight_loader(cls, original_weight_loader: Any) -> Any:
        """Return a function that does nothing."""
        return lambda param, *args, **kwargs: None


class LoaderNone(Good):
    """Gives no weight loader at all."""

    @classmethod
    def make_synced_weight_loader(cls, original_weight_loader: Any) -> Any:
        """Forget the return."""


class LoaderPasses(Good):
    """Wraps the weight loader and calls it."""

    @classmethod
    def make_synced_weight_loader(cls, original_weight_loader: Callable[..., Any]) -> Any:
        """Return a function that calls it."""

        def load(param: Any, *args: Any, **kwargs: Any) -> Any:
            return original_weight_loader(param, *args, **kwargs)

        return load


class ContextNone(Good):
    """Adds None to the context of a step."""

    @classmethod
    def set_additional_forward_context(cls, **kwargs: Any) -> dict[str, Any]:
        """Forget the return."""
        return None  # type: ignore[return-value]


class ContextAdds(Good):
    """Adds a value to the context of a step."""

    @classmethod
    def set_additional_forward_context(cls, **kwargs: Any) -> dict[str, Any]:
        """Add it."""
        return {"chip_tokens": kwargs.get("num_tokens")}


class TruthyCapability(Good):
    """Answers a yes/no question with a number."""

    @classmethod
    def supports_fp8(cls) -> bool:
        """Return a number."""
        return 1  # type: ignore[return-value]


class NoneCapability(Good):
    """Answers a yes/no question with nothing."""

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Forget the return."""
        return None  # type: ignore[return-value]


class RealCapability(Good):
    """Answers a yes/no question with a bool."""

    @classmethod
    def supports_fp8(cls) -> bool:
        """Say yes."""
        return True


class PinNone(Good):
    """Answers whether memory can be pinned with nothing."""

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Forget the return."""
        return None  # type: ignore[return-value]


class DtypesAsText(Good):
    """Lists dtypes by name."""

    @property
    def supported_dtypes(self) -> list[Any]:
        """List two."""
        return ["bfloat16", "float32"]


class DtypesReal(Good):
    """Lists dtypes."""

    @property
    def supported_dtypes(self) -> list[Any]:
        """List two."""
        import torch

        return [torch.bfloat16, torch.float32]


class InfinityWrongKind(Good):
    """Expects another library's dtype."""

    @classmethod
    def get_infinity_values(cls, dtype: Any) -> tuple[float, float]:
        """Ask a torch dtype for what it lacks."""
        return (float(dtype.min), float(dtype.max))


class CapabilityTuple(Good):
    """Gives a plain pair."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> Any:
        """Return a pair."""
        return (8, 0)


class CapabilityReal(Good):
    """Gives the engine's own pair, for a device that is like CUDA."""

    def is_cuda_alike(self) -> bool:
        """Say yes."""
        return True

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> Any:
        """Return it."""
        from platform_abc.types import DeviceCapability

        return DeviceCapability(8, 0)


class EmptyVariable(Good):
    """Splits the device variable without a look at whether it is empty."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Split it."""
        value = os.environ.get(cls.device_control_env_var)
        return device_id if value is None else int(value.split(",")[device_id])


class EmptyVariableUnset(Good):
    """Treats an empty device variable as an unset one."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Split it where there is something."""
        value = os.environ.get(cls.device_control_env_var, "")
        return int(value.split(",")[device_id]) if value else device_id


class NameAsBytes(Good):
    """Gives the device's name as its driver does."""

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return bytes."""
        return b"CHIP-9"  # type: ignore[return-value]


class MemoryInGib(Good):
    """Gives memory in GiB."""

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return GiB."""
        return 8


class MemoryUnknown(Good):
    """Declines to say how much memory there is."""

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Decline."""
        raise NotImplementedError("the driver does not say")


class SeedIgnored(Good):
    """Takes the seed and does nothing with it."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Ignore it."""


class DeviceByNumber(Good):
    """Takes a number where the engine passes a device."""

    @classmethod
    def set_device(cls, device: Any) -> None:
        """Use it as a number."""
        os.environ["CHIP_CURRENT"] = str(device + 0)


class LoaderTwice(Good):
    """Loads each weight twice."""

    @classmethod
    def make_synced_weight_loader(cls, original_weight_loader: Callable[..., Any]) -> Any:
        """Return a function that calls the original twice."""

        def load(param: Any, *args: Any, **kwargs: Any) -> Any:
            original_weight_loader(param, *args, **kwargs)
            return original_weight_loader(param, *args, **kwargs)

        return load
