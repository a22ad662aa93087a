"""The XPU platform: Intel devices, asked through `torch.xpu`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from platform_abc.errors import ConfigError, NotSupported
from platform_abc.types import DeviceCapability, PlatformEnum
from platforms.accelerator import AcceleratorPlatform

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch

    from platforms.torch_runtime import Properties

REMEDY: Final = (
    "run it on a machine with an Intel device and its driver, with a torch that is built for XPU; "
    "`xpu-smi discovery` shows what the driver sees, ZE_AFFINITY_MASK may hide it"
)
"""What makes an XPU device appear."""


class XPUPlatform(AcceleratorPlatform):
    """An Intel device."""

    _enum = PlatformEnum.XPU
    device_name: str = "xpu"
    device_type: str = "xpu"
    dispatch_key: str = "XPU"
    ray_device_key: str = "GPU"
    dist_backend: str = "xccl"
    device_control_env_var: str = "ZE_AFFINITY_MASK"

    _kind = "xpu"
    _remedy = REMEDY

    # --- config hooks

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse a dtype that the device does not compute in, and bfloat16 on the Arc A770.

        Args:
            dtype: the model's dtype.

        Raises:
            ConfigError: naming the dtypes that work.
        """
        super().check_if_supports_dtype(dtype)
        if str(dtype) == "torch.bfloat16" and "A770" in cls.get_device_name().upper():
            raise ConfigError(
                "dtype = bfloat16: the Intel Arc A770 is known to compute inaccurately in it; pass "
                "--dtype=float16"
            )

    # --- ids

    @classmethod
    def device_control_id_to_physical_device_id(cls, device_id: str) -> int:
        """Return the physical id that an entry of `ZE_AFFINITY_MASK` means.

        Args:
            device_id: a number, or `device.tile` for one tile of a device, which means that device.

        Raises:
            ValueError: it is neither; with the variable and its value.
        """
        device, dot, tile = device_id.strip().partition(".")
        if dot and not tile.isdecimal():
            device = device_id
        return super().device_control_id_to_physical_device_id(device)

    # --- queries

    @classmethod
    def _properties(cls, member: str, device_id: int) -> Properties:
        # The map checks the id against the variable and names it; torch has applied it already.
        cls.visible_device_id_to_physical_device_id(device_id)
        return super()._properties(member, device_id)

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return None: Intel's version numbers mean something else than compute capabilities.

        Args:
            device_id: not read.
        """
        return None

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return the UUID of a device.

        Args:
            device_id: visible id.

        Raises:
            NotSupported: this torch does not tell.
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        found: object = getattr(cls._properties("get_device_uuid", device_id), "uuid", None)
        if not found:
            raise NotSupported("get_device_uuid", cls.__name__, "install torch 2.8 or newer")
        return str(found)

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of compute units of a device, which Intel calls vector engines.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        count: int = getattr(cls._properties("num_compute_units", device_id), "max_compute_units")  # noqa: B009
        return count

    # --- device state

    @classmethod
    def inference_mode(cls) -> AbstractContextManager[object]:
        """Return a context in which no gradient is recorded; XPU kernels do not take inference tensors."""
        import torch

        return torch.no_grad()

    # --- capabilities

    @classmethod
    def supports_fp8(cls) -> bool:
        """Say yes: the matrix engines, or the vector engines in their place, take FP8 operands."""
        return True
