"""The ROCm platform: AMD devices, asked through amdsmi, and through a HIP torch where that is missing.

amdsmi answers without creating a HIP context. It is missing under WSL, where torch is asked instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from platform_abc.device_ids import assigned_physical_devices
from platform_abc.errors import DeviceUnavailable
from platform_abc.types import DeviceCapability
from platforms import amd_smi, rocm_ids
from platforms.rocm_base import REMEDY, RocmPlatformBase
from platforms.torch_runtime import (
    Properties,
    device_index,
    properties,
    require_index,
    require_physical,
)

if TYPE_CHECKING:
    import torch

R = TypeVar("R")

_logger = logging.getLogger(__name__)


class RocmPlatform(RocmPlatformBase):
    """An AMD device, asked through amdsmi, or through torch where amdsmi does not answer."""

    # --- ids

    @classmethod
    def visible_device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Return the number that amdsmi gives a visible device.

        Args:
            device_id: visible id, counted from 0.

        Raises:
            IndexError: a variable makes fewer devices visible.
            ValueError: a variable is malformed, or two contradict each other.
        """
        return rocm_ids.physical(device_id)

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Return the physical id of a logical id: the assigned one, else that of the same visible id.

        Args:
            device_id: logical id, counted from 0.

        Raises:
            IndexError: there are not so many devices.
            ValueError: a variable is malformed, or two contradict each other.
        """
        if assigned_physical_devices() is not None:
            return super().device_id_to_physical_device_id(device_id)
        return rocm_ids.physical(device_id)

    @classmethod
    def logical_device_id_to_visible_device_id(cls, device_id: int) -> int:
        """Return the visible id of a logical id: the N of `torch.device("cuda:N")`.

        Args:
            device_id: logical id, counted from 0.

        Raises:
            IndexError: there are not so many devices.
            ValueError: a variable is malformed, or hides the device.
        """
        wanted = cls.device_id_to_physical_device_id(device_id)
        if assigned_physical_devices() is None:
            return device_id
        return rocm_ids.visible(wanted)

    @classmethod
    def device_count(cls) -> int:
        """Return how many devices this process sees, as the variables are now.

        Raises:
            ValueError: a variable is malformed, or two contradict each other.
        """
        try:
            with amd_smi.session() as library:
                return rocm_ids.count(len(library.amdsmi_get_processor_handles()))
        except (amd_smi.AmdSmiMissing, amd_smi.AmdSmiRefused):
            import torch

            return torch.cuda.device_count()

    # --- queries

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return the capability of a device by its architecture, `gfx942` is 9.4; None without a device.

        Args:
            device_id: visible id.

        Raises:
            IndexError: there are not so many devices.
        """
        found = amd_smi.capability_of(cls._arch(device_id))
        return None if found is None else DeviceCapability(*found)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the product name of a device.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._ask("get_device_name", device_id, amd_smi.name, lambda of: of.name)

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return the UUID of a device.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device, or without amdsmi this torch does not tell.
            IndexError: there are not so many devices.
        """
        found = cls._ask(
            "get_device_uuid", device_id, amd_smi.uuid, lambda of: str(getattr(of, "uuid", None) or "")
        )
        if not found:
            raise DeviceUnavailable("get_device_uuid", cls.__name__, "install amdsmi, or a newer torch")
        return found

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the memory of a device in bytes.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._ask(
            "get_device_total_memory", device_id, amd_smi.total_memory, lambda of: int(of.total_memory)
        )

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device = None) -> float:
        """Return the bytes in use on a device, by all processes.

        Args:
            device: the device; the current one if None.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
            ValueError: it is of another type.
        """
        index, member = device_index(device, "hip"), "get_current_memory_usage"

        def from_torch(_: Properties) -> int:
            free, total = cls._runtime(member).mem_get_info(index)
            return total - free

        return float(cls._ask(member, index, amd_smi.used_memory, from_torch))

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """Return the PCI bus id of every physical device, by physical id.

        Raises:
            DeviceUnavailable: amdsmi is not there, or counts no device.
        """
        member = "get_all_gpu_pci_bus_ids"
        try:
            with amd_smi.session() as library:
                handles = library.amdsmi_get_processor_handles()
                found = [library.amdsmi_get_gpu_device_bdf(handle) for handle in handles]
        except (amd_smi.AmdSmiMissing, amd_smi.AmdSmiRefused) as error:
            raise DeviceUnavailable(member, cls.__name__, f"{REMEDY} ({error})") from error
        if not found:
            raise DeviceUnavailable(member, cls.__name__, REMEDY)
        return dict(enumerate(found))

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of compute units of a device.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._ask("num_compute_units", device_id, amd_smi.compute_units, _torch_units)

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
        """Say whether each of these devices reaches each other one over XGMI in one hop.

        Args:
            physical_device_ids: physical ids.
        """
        if len(physical_device_ids) <= 1:
            return True
        try:
            with amd_smi.session() as library:
                handles = library.amdsmi_get_processor_handles()
                for device in physical_device_ids:
                    require_index(device, len(handles))
                return amd_smi.all_linked(library, [handles[device] for device in physical_device_ids])
        except (amd_smi.AmdSmiMissing, amd_smi.AmdSmiRefused) as error:
            _logger.warning("amdsmi does not say how devices %s are linked: %s", physical_device_ids, error)
            return False

    @classmethod
    def get_all_device_numa_nodes(cls) -> list[int] | None:
        """Return the NUMA node of each visible device, by visible id; None unless amdsmi knows all."""
        try:
            with amd_smi.session() as library:
                handles = library.amdsmi_get_processor_handles()
                shown = [rocm_ids.physical(device) for device in range(rocm_ids.count(len(handles)))]
                for device in shown:
                    require_physical(device, len(handles), *rocm_ids.VARIABLES)
                nodes = [amd_smi.numa_node(library, handles[device]) for device in shown]
        except (amd_smi.AmdSmiMissing, amd_smi.AmdSmiRefused):
            return None
        return nodes if nodes and min(nodes) >= 0 else None

    @classmethod
    def _ask(
        cls,
        member: str,
        device_id: int,
        question: Callable[[amd_smi.AmdSmi, amd_smi.Handle], R],
        otherwise: Callable[[Properties], R],
    ) -> R:
        """Ask amdsmi about a visible device, or torch where amdsmi is missing or does not answer.

        Raises:
            DeviceUnavailable: neither knows a device.
            IndexError: there are not so many devices.
        """
        physical = rocm_ids.physical(device_id)
        try:
            with amd_smi.session() as library:
                handles = library.amdsmi_get_processor_handles()
                require_physical(physical, len(handles), *rocm_ids.VARIABLES)
                return question(library, handles[physical])
        except (amd_smi.AmdSmiMissing, amd_smi.AmdSmiRefused) as error:
            remedy = f"{REMEDY} ({error})"
        return otherwise(properties("hip", device_id, member, cls.__name__, remedy, *rocm_ids.VARIABLES))

    @classmethod
    def _arch(cls, device_id: int = 0) -> str:
        """Return the architecture of a device, `gfx942`; empty where there is no device."""
        physical = rocm_ids.physical(device_id)
        if physical not in _ARCHS:
            try:
                _ARCHS[physical] = cls._ask("get_device_capability", device_id, amd_smi.arch, _torch_arch)
            except DeviceUnavailable:
                return ""
        return _ARCHS[physical]

    # --- capabilities

    @classmethod
    def supports_mx(cls) -> bool:
        """Say whether the first device computes in MX types: gfx950 and gfx1250 do."""
        return cls._arch().startswith(("gfx95", "gfx1250"))

    @classmethod
    def supports_fp8(cls) -> bool:
        """Say whether the first device computes in FP8: from gfx94 on, and gfx12."""
        return cls._arch().startswith(("gfx94", "gfx95", "gfx12"))

    @classmethod
    def is_fp8_fnuz(cls) -> bool:
        """Say whether the first device's FP8 type is the FNUZ one: on gfx94 alone, MI300 and MI325."""
        return cls._arch().startswith("gfx94")

    @classmethod
    def fp8_dtype(cls) -> torch.dtype:
        """Return the FP8 type of the first device."""
        import torch

        return torch.float8_e4m3fnuz if cls.is_fp8_fnuz() else torch.float8_e4m3fn

    @classmethod
    def is_on_gfx9(cls) -> bool:
        """Say whether the first device is of the GFX9 family that serves models: gfx90a, gfx94, gfx95."""
        return cls._arch().startswith(("gfx90a", "gfx94", "gfx95"))


_ARCHS: dict[int, str] = {}
"""Architectures by physical id: layers ask in every step, and a device does not change."""


def _torch_arch(of: Properties) -> str:
    return amd_smi.normalize_arch(str(getattr(of, "gcnArchName", "")))


def _torch_units(of: Properties) -> int:
    count: int = getattr(of, "multi_processor_count")  # noqa: B009
    return count
