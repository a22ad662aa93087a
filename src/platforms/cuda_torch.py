"""CUDA through torch alone, for machines whose driver has no NVML, such as Jetson boards.

Every query creates a CUDA context in the process that asks.
"""

from __future__ import annotations

import logging

from platform_abc.errors import DeviceUnavailable, NotSupported
from platform_abc.types import DeviceCapability
from platforms.cuda_base import CudaPlatformBase
from platforms.torch_runtime import pci_bus_id, require_index

_logger = logging.getLogger(__name__)


class TorchCudaPlatform(CudaPlatformBase):
    """An NVIDIA device that is asked through `torch.cuda`."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return the compute capability of a device; None where there is no device.

        Args:
            device_id: visible id.

        Raises:
            IndexError: there are not so many devices.
        """
        try:
            found = cls._runtime("get_device_capability")
        except DeviceUnavailable:
            return None
        require_index(device_id, found.device_count(), cls.device_control_env_var)
        return DeviceCapability(*found.get_device_capability(device_id))

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return the UUID of a device, `GPU-…`.

        Args:
            device_id: visible id.

        Raises:
            NotSupported: this torch does not tell.
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        found: object = getattr(cls._properties("get_device_uuid", device_id), "uuid", None)
        if found is None:
            raise NotSupported(
                "get_device_uuid", cls.__name__, "install NVML (nvidia-ml-py) or a newer torch"
            )
        return f"GPU-{found}"

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """Return the PCI address of every visible device, by physical id.

        Raises:
            NotSupported: this torch does not tell.
            DeviceUnavailable: there is no device.
        """
        member = "get_all_gpu_pci_bus_ids"
        found: dict[int, str] = {}
        for device in range(cls._runtime(member).device_count()):
            address = pci_bus_id(cls._properties(member, device))
            if address is None:
                raise NotSupported(member, cls.__name__, "install NVML (nvidia-ml-py) or a newer torch")
            found[cls.visible_device_id_to_physical_device_id(device)] = address
        return found

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of multiprocessors of a device.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        count: int = getattr(cls._properties("num_compute_units", device_id), "multi_processor_count")  # noqa: B009
        return count

    @classmethod
    def is_integrated_gpu(cls, device_id: int = 0) -> bool:
        """Say whether a device shares its memory with the host.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return bool(getattr(cls._properties("is_integrated_gpu", device_id), "is_integrated", False))

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
        """Say no where there is more than one device: torch cannot tell NVLink from other links.

        Args:
            physical_device_ids: physical ids.
        """
        if len(physical_device_ids) > 1:
            _logger.warning("without NVML nothing is known about NVLink, so the devices count as not linked")
        return len(physical_device_ids) <= 1
