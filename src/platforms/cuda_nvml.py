"""CUDA through NVML, which answers without creating a CUDA context in the process that asks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from platform_abc import device_ids
from platform_abc.errors import DeviceUnavailable
from platform_abc.types import DeviceCapability
from platforms import common, nvml
from platforms.cuda_base import REMEDY, CudaPlatformBase
from platforms.host_memory import host_memory
from platforms.host_processor import cpus_of_node, node_of_cpu
from platforms.torch_runtime import device_index, require_physical

if TYPE_CHECKING:
    import torch

R = TypeVar("R")
Question = Callable[[nvml.Nvml, nvml.Handle], R]

_logger = logging.getLogger(__name__)


class NvmlCudaPlatform(CudaPlatformBase):
    """An NVIDIA device that is asked through NVML.

    NVML numbers physical devices, so each query goes through `CUDA_VISIBLE_DEVICES` first. Where that
    holds the UUID of a MIG instance, the instance answers for its memory, name and multiprocessors, and
    its whole device for everything else.
    """

    # --- asking

    @classmethod
    def _ask(cls, member: str, device_id: int, question: Question[R]) -> R:
        """Ask NVML about a visible device.

        Raises:
            DeviceUnavailable: NVML is not there, or does not answer.
            IndexError: there are not so many devices.
            ValueError: the variable holds what names no device.
        """
        try:
            with nvml.session() as library:
                return question(library, cls._handle(library, device_id))
        except (nvml.NvmlMissing, nvml.NvmlRefused) as error:
            raise cls._unavailable(member, error) from error

    @classmethod
    def _unavailable(cls, member: str, error: Exception) -> DeviceUnavailable:
        return DeviceUnavailable(member, cls.__name__, f"{REMEDY} ({error})")

    @classmethod
    def _handle(cls, library: nvml.Nvml, device_id: int) -> nvml.Handle:
        entries = device_ids.visible_entries(cls.device_control_env_var)
        # The map checks the id and the entry, and names the variable where one is wrong.
        physical = cls.visible_device_id_to_physical_device_id(device_id)
        if entries is not None and not entries[device_id].isdecimal():
            return nvml.handle_by_identifier(library, entries[device_id])
        require_physical(physical, library.nvmlDeviceGetCount(), cls.device_control_env_var)
        return library.nvmlDeviceGetHandleByIndex(physical)

    # --- ids

    @classmethod
    def device_control_id_to_physical_device_id(cls, device_id: str) -> int:
        """Return the physical id that an entry of `CUDA_VISIBLE_DEVICES` means.

        Args:
            device_id: an index, the UUID of a device or the beginning of one, or that of a MIG instance,
                which means the device it is a part of.

        Raises:
            ValueError: it names no device, or more than one, or NVML is not there to look it up; with the
                variable and its value.
        """
        entry = device_id.strip()
        if entry.isdecimal():
            return int(entry)
        try:
            with nvml.session() as library:
                handle = nvml.handle_by_identifier(library, entry)
                return library.nvmlDeviceGetIndex(nvml.whole_device(library, handle))
        except ValueError as error:
            raise ValueError(f"{common.shown_variable(cls.device_control_env_var)}: {error}") from error
        except (nvml.NvmlMissing, nvml.NvmlRefused) as error:
            raise ValueError(
                f"{common.shown_variable(cls.device_control_env_var)}: only NVML knows which device {entry!r} "
                f"is, and it does not say ({error}); write the numbers of the devices instead"
            ) from error

    @classmethod
    def device_count(cls) -> int:
        """Return how many devices this process sees.

        It follows the variable as it is now, where torch keeps the first answer. As for CUDA, an entry that
        names no device hides itself and all after it, and with an entry twice there is none.
        """
        value = os.environ.get(cls.device_control_env_var, "")
        entries = [entry.strip() for entry in value.split(",") if entry.strip()]
        if len(set(entries)) < len(entries):
            return 0
        try:
            with nvml.session() as library:
                if not value.strip():
                    return library.nvmlDeviceGetCount()
                return next(
                    (i for i, entry in enumerate(entries) if not nvml.is_known(library, entry)), len(entries)
                )
        except (nvml.NvmlMissing, nvml.NvmlRefused):
            return 0

    # --- queries

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return the compute capability of a device; None where there is no device.

        Args:
            device_id: visible id.

        Raises:
            IndexError: there are not so many devices.
            ValueError: the variable holds what names no device.
        """
        entries = device_ids.visible_entries(cls.device_control_env_var)
        key = str(device_id)
        if entries is not None:
            # An id that the variable does not list has no answer to keep: it is refused below.
            key = entries[device_id] if 0 <= device_id < len(entries) else ""
        kept = _CAPABILITIES.get(key)
        if kept is None:
            try:
                kept = cls._ask("get_device_capability", device_id, _capability)
            except DeviceUnavailable:
                return None
            _CAPABILITIES[key] = kept
        return kept

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the product name of a device, or of a MIG instance.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._ask("get_device_name", device_id, _name)

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return the UUID of a device, `GPU-…`, or of a MIG instance, `MIG-…`.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._ask("get_device_uuid", device_id, _uuid)

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the memory in bytes of a device or MIG instance.

        An integrated device, for which NVML knows no memory, has the host's.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._memory("get_device_total_memory", device_id)[0]

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device = None) -> float:
        """Return the bytes in use on a device, by all processes.

        Args:
            device: the device; the current one if None.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return float(cls._memory("get_current_memory_usage", device_index(device, "cuda"))[1])

    @classmethod
    def _memory(cls, member: str, device_id: int) -> tuple[int, int]:
        """Return `(total, used)` in bytes."""
        found = cls._ask(member, device_id, _memory)
        if found is None:
            shared = host_memory()
            if shared is None:
                raise DeviceUnavailable(member, cls.__name__, "let this process read /proc/meminfo")
            return shared.total, shared.used
        return found

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """Return the PCI bus id of every physical device, by physical id.

        Raises:
            DeviceUnavailable: there is no device.
        """
        try:
            with nvml.session() as library:
                handles = map(library.nvmlDeviceGetHandleByIndex, range(library.nvmlDeviceGetCount()))
                found = [nvml.as_text(library.nvmlDeviceGetPciInfo(handle).busId) for handle in handles]
        except (nvml.NvmlMissing, nvml.NvmlRefused) as error:
            raise cls._unavailable("get_all_gpu_pci_bus_ids", error) from error
        if not found:
            raise DeviceUnavailable("get_all_gpu_pci_bus_ids", cls.__name__, REMEDY)
        return dict(enumerate(found))

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of multiprocessors of a device, or of a MIG instance.

        Where NVML does not say, torch does, which creates a CUDA context.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        counted = cls._ask("num_compute_units", device_id, _multiprocessors)
        if counted is not None:
            return counted
        count: int = getattr(cls._properties("num_compute_units", device_id), "multi_processor_count")  # noqa: B009
        return count

    @classmethod
    def is_integrated_gpu(cls, device_id: int = 0) -> bool:
        """Say whether a device shares its memory with the host: those of which NVML knows no memory.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._ask("is_integrated_gpu", device_id, _memory) is None

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
        """Say whether each of these devices reaches each other one over NVLink in one hop.

        Args:
            physical_device_ids: physical ids.

        Raises:
            DeviceUnavailable: NVML is not there.
        """
        try:
            with nvml.session() as library:
                return _all_linked(library, physical_device_ids)
        except nvml.NvmlMissing as error:
            raise cls._unavailable("is_fully_connected", error) from error
        except nvml.NvmlRefused as error:
            _logger.warning("NVML does not say how devices %s are linked: %s", physical_device_ids, error)
            return False

    @classmethod
    def get_device_numa_node(cls, device_id: int = 0) -> int | None:
        """Return the NUMA node with processors that is nearest to a device; None if not known.

        Args:
            device_id: visible id.

        Raises:
            IndexError: there are not so many devices.
        """
        try:
            return cls._ask("get_device_numa_node", device_id, _numa_node)
        except DeviceUnavailable:
            return None

    @classmethod
    def get_all_device_numa_nodes(cls) -> list[int] | None:
        """Return the NUMA node of each visible device, by visible id; None unless all are known."""
        nodes = [cls.get_device_numa_node(device) for device in range(cls.device_count())]
        known = [node for node in nodes if node is not None]
        return known if known and len(known) == len(nodes) else None

    @classmethod
    def log_warnings(cls) -> None:
        """Warn where devices differ and CUDA may number them in another order than NVML does."""
        try:
            with nvml.session() as library:
                handles = map(library.nvmlDeviceGetHandleByIndex, range(library.nvmlDeviceGetCount()))
                names = [nvml.as_text(library.nvmlDeviceGetName(handle)) for handle in handles]
        except (nvml.NvmlMissing, nvml.NvmlRefused):
            return
        if len(set(names)) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            _logger.warning(
                "this machine has different devices (%s): set CUDA_DEVICE_ORDER=PCI_BUS_ID, or numbers in "
                "CUDA_VISIBLE_DEVICES may mean other devices to CUDA than to NVML",
                ", ".join(names),
            )


_CAPABILITIES: dict[str, DeviceCapability] = {}
"""Capabilities by entry of the variable: layers ask in every step, and a device does not change."""


def _capability(library: nvml.Nvml, handle: nvml.Handle) -> DeviceCapability:
    major, minor = library.nvmlDeviceGetCudaComputeCapability(nvml.whole_device(library, handle))
    return DeviceCapability(major, minor)


def _name(library: nvml.Nvml, handle: nvml.Handle) -> str:
    return nvml.as_text(library.nvmlDeviceGetName(handle))


def _uuid(library: nvml.Nvml, handle: nvml.Handle) -> str:
    return nvml.as_text(library.nvmlDeviceGetUUID(handle))


def _memory(library: nvml.Nvml, handle: nvml.Handle) -> tuple[int, int] | None:
    """Return `(total, used)` in bytes; None for a device that has no memory of its own."""
    try:
        found = library.nvmlDeviceGetMemoryInfo(handle)
    except library.NVMLError as error:
        if type(error).__name__ != "NVMLError_NotSupported":
            raise
        return None
    return int(found.total), int(found.used)


def _multiprocessors(library: nvml.Nvml, handle: nvml.Handle) -> int | None:
    per_unit = nvml.CORES_PER_MULTIPROCESSOR.get(_capability(library, handle))
    try:
        if nvml.is_mig(library, handle):
            return int(library.nvmlDeviceGetAttributes(handle).multiprocessorCount)
        cores = library.nvmlDeviceGetNumGpuCores(handle)
    except (library.NVMLError, AttributeError):
        # Older bindings lack the functions.
        return None
    return None if per_unit is None or cores % per_unit else cores // per_unit


def _all_linked(library: nvml.Nvml, physical_ids: list[int]) -> bool:
    handles = [library.nvmlDeviceGetHandleByIndex(i) for i in physical_ids]
    return all(
        library.nvmlDeviceGetP2PStatus(one, other, library.NVML_P2P_CAPS_INDEX_NVLINK)
        == library.NVML_P2P_STATUS_OK
        for i, one in enumerate(handles)
        for other in handles[i + 1 :]
    )


def _numa_node(library: nvml.Nvml, handle: nvml.Handle) -> int | None:
    device = nvml.whole_device(library, handle)
    try:
        node = library.nvmlDeviceGetNumaNodeId(device)
    except (library.NVMLError, AttributeError):
        node = None
    # On Grace the device's own memory is a node too, one without processors.
    if node is not None and cpus_of_node(node):
        return node
    near = _near_cpus(library, device)
    return node_of_cpu(near[0]) if near else None


def _near_cpus(library: nvml.Nvml, device: nvml.Handle) -> list[int]:
    words = -(-(os.cpu_count() or 1) // 64)
    try:
        masks = library.nvmlDeviceGetCpuAffinity(device, words)
    except library.NVMLError:
        return []
    return [64 * i + bit for i, mask in enumerate(masks) for bit in range(64) if mask >> bit & 1]
