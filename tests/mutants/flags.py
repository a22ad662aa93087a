"""Mutants whose flags, dtypes and methods do not fit what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.mutants.good import Good

if TYPE_CHECKING:
    import torch

    from platform_abc.types import DeviceCapability


class PinsNothing(Good):
    """Says that memory can be pinned, which torch cannot on the host's processor."""

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Say yes."""
        return True


class OtherFp8(Good):
    """Names the FNUZ type and says that it is not the one."""

    @classmethod
    def fp8_dtype(cls) -> torch.dtype:
        """Give AMD's type."""
        import torch

        return torch.float8_e4m3fnuz


class NoFp8(Good):
    """Names a type that is no FP8."""

    @classmethod
    def fp8_dtype(cls) -> torch.dtype:
        """Give another type of one byte."""
        import torch

        return torch.int8


class SameFp8(Good):
    """Names the FNUZ type and says so."""

    @classmethod
    def fp8_dtype(cls) -> torch.dtype:
        """Give AMD's type."""
        import torch

        return torch.float8_e4m3fnuz

    @classmethod
    def is_fp8_fnuz(cls) -> bool:
        """Say yes."""
        return True


class AcceptsAll(Good):
    """Lets every quantization method pass, whatever the list says."""

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Accept it."""


class RefusesListed(Good):
    """Refuses a method that it lists."""

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Refuse FP8."""
        if quant != "chip_w8":
            raise ValueError(f"quantization {quant} does not run on this chip")


class FollowsList(Good):
    """Refuses what it does not list, and one method of others in the engine's words."""

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Ask the list."""
        if quant not in cls.supported_quantization:
            raise ValueError(f"quantization {quant} does not run on this chip")


class DtypeTwice(Good):
    """Lists a dtype twice."""

    @property
    def supported_dtypes(self) -> list[Any]:
        """List three, of which two are one."""
        import torch

        return [torch.bfloat16, torch.float32, torch.bfloat16]


class RefusesDtype(Good):
    """Refuses a dtype that it lists."""

    @property
    def supported_dtypes(self) -> list[Any]:
        """List two."""
        import torch

        return [torch.bfloat16, torch.float16]

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse one."""
        import torch

        if dtype is torch.float16:
            raise ValueError("float16 does not run on this chip")


class TakesDtype(Good):
    """Refuses what it does not list."""

    @property
    def supported_dtypes(self) -> list[Any]:
        """List one."""
        import torch

        return [torch.bfloat16]

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse others."""
        import torch

        if dtype is not torch.bfloat16:
            raise ValueError(f"{dtype} does not run on this chip")


class FakesCapability(Good):
    """Announces a capability of CUDA that its device has not got."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Give one."""
        from platform_abc.types import DeviceCapability

        return DeviceCapability(8, 0)


class SaysMore(Good):
    """Says that it has every capability, and gives none."""

    @classmethod
    def has_device_capability(cls, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        """Say yes."""
        return True


class SaysSame(Good):
    """Answers as the base does, in its own words."""

    @classmethod
    def has_device_capability(cls, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        """Say no: there is none."""
        return False


class SleepsWithout(Good):
    """Offers sleep mode without an allocator for it."""

    def is_sleep_mode_available(self) -> bool:
        """Say yes."""
        return True


class SleepsWith(Good):
    """Offers sleep mode and has the allocator."""

    def is_sleep_mode_available(self) -> bool:
        """Say yes."""
        return True

    def is_cumem_allocator_available(self) -> bool:
        """Say yes."""
        return True


class SleepsItself(Good):
    """Offers sleep mode by its own worker."""

    def is_sleep_mode_available(self) -> bool:
        """Say yes."""
        return True

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Name the worker that sleeps."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = "tests.mutants.surface_parts.SleepingWorker"


class NoRayKey(Good):
    """Has devices of its own and no name under which Ray counts them."""

    device_type = "privateuseone"
    ray_device_key = ""


class NoRayKeyOnHost(Good):
    """Runs on the host's processor, of which a machine has one."""

    ray_device_key = ""
