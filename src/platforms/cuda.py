"""The CUDA platform: NVML answers where it is there, torch where it is not.

`NvmlCudaPlatform` and `TorchCudaPlatform` are for those who want one of the two alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from platforms import nvml
from platforms.cuda_nvml import NvmlCudaPlatform
from platforms.cuda_torch import TorchCudaPlatform

if TYPE_CHECKING:
    import torch

    from platform_abc.types import DeviceCapability

__all__ = ["CudaPlatform", "NvmlCudaPlatform", "TorchCudaPlatform"]


class CudaPlatform(NvmlCudaPlatform, TorchCudaPlatform):
    """An NVIDIA device.

    NVML answers, without a CUDA context. Where there is no NVML, as on Jetson boards, torch answers the
    same questions, which creates a context in the process that asks. Errors are those of the two classes.
    """

    @classmethod
    def device_count(cls) -> int:
        """Return how many devices this process sees."""
        if nvml.available():
            return super().device_count()
        import torch

        return torch.cuda.device_count()

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return the compute capability of a device; None where there is no device.

        Args:
            device_id: visible id.
        """
        if nvml.available():
            found = super().get_device_capability(device_id)
            if found is not None:
                return found
        # The NVML of newer Jetson boards starts, but does not know the capability.
        return super(NvmlCudaPlatform, cls).get_device_capability(device_id)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the product name of a device.

        Args:
            device_id: visible id.
        """
        if nvml.available():
            return super().get_device_name(device_id)
        return super(NvmlCudaPlatform, cls).get_device_name(device_id)

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return the UUID of a device, or of a MIG instance.

        Args:
            device_id: visible id.
        """
        if nvml.available():
            return super().get_device_uuid(device_id)
        return super(NvmlCudaPlatform, cls).get_device_uuid(device_id)

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the memory of a device in bytes.

        Args:
            device_id: visible id.
        """
        if nvml.available():
            return super().get_device_total_memory(device_id)
        return super(NvmlCudaPlatform, cls).get_device_total_memory(device_id)

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device = None) -> float:
        """Return the bytes in use on a device, by all processes.

        Args:
            device: the device; the current one if None.
        """
        if nvml.available():
            return super().get_current_memory_usage(device)
        return super(NvmlCudaPlatform, cls).get_current_memory_usage(device)

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """Return the PCI address of every device, by physical id."""
        if nvml.available():
            return super().get_all_gpu_pci_bus_ids()
        return super(NvmlCudaPlatform, cls).get_all_gpu_pci_bus_ids()

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of multiprocessors of a device.

        Args:
            device_id: visible id.
        """
        if nvml.available():
            return super().num_compute_units(device_id)
        return super(NvmlCudaPlatform, cls).num_compute_units(device_id)

    @classmethod
    def is_integrated_gpu(cls, device_id: int = 0) -> bool:
        """Say whether a device shares its memory with the host.

        Args:
            device_id: visible id.
        """
        if nvml.available():
            return super().is_integrated_gpu(device_id)
        return super(NvmlCudaPlatform, cls).is_integrated_gpu(device_id)

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
        """Say whether each of these devices reaches each other one over NVLink in one hop.

        Args:
            physical_device_ids: physical ids.
        """
        if nvml.available():
            return super().is_fully_connected(physical_device_ids)
        return super(NvmlCudaPlatform, cls).is_fully_connected(physical_device_ids)
