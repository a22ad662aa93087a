"""Device: what the hardware is and has, and how to address it.

Capability, memory, dtypes, device ids, seeds, the process group between devices and the pool for device
graphs. Most are asked in a worker that owns its device; `get_device_capability`, `get_device_name` and the
maps of ids are asked in the front end too, so they should not initialise the device.

An engine counts devices in three ways. *Logical* ids are its own local ranks. *Visible* ids are what torch
counts in this process, after the device-control variable was applied. *Physical* ids are those of the
machine, which management libraries use.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from platform_abc._host import in_wsl
from platform_abc.device_like import DeviceLike, DeviceV2Like, has_device_v2
from platform_abc.errors import NotSupported
from platform_abc.torch_fallback import TorchFallback

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import timedelta

    import torch
    from torch._C._distributed_c10d import PrefixStore, ProcessGroup
    from torch.types import Device as TorchDevice

    from platform_abc.types import DeviceCapability


__all__ = ["Device", "DeviceLike", "DeviceV2Like", "has_device_v2"]

# Re-entrant, because `graph_pool_handle` is the vendor's code.
_making_pool: Final = threading.RLock()


class Device(TorchFallback, ABC):
    """The device of a platform, with defaults; `get_device_name` is mandatory."""

    if TYPE_CHECKING:
        device_name: str
        device_control_env_var: str

    _global_graph_pool: object | None = None

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The dtypes that models can compute in; bfloat16, float16 and float32 by default.

        Read in the front end when the model's config is built. The order counts: the first is taken when
        the model's own dtype is not among them.
        """
        import torch

        return [torch.bfloat16, torch.float16, torch.float32]

    @classmethod
    def device_control_id_to_physical_device_id(cls, device_id: str) -> int:
        """Return the physical id that one entry of the device-control variable means.

        Called in the front end and in workers by the maps below. The default reads a number; a platform
        whose variable takes other identifiers (UUIDs, partitions) overrides it, with the help of
        `platform_abc.device_ids.find_by_identifier`.

        Args:
            device_id: one entry, as it stands in the variable.

        Raises:
            ValueError: it means no device; the text names the variable and the entry.
        """
        from platform_abc import device_ids

        return device_ids.entry_to_physical(
            device_id, variable=cls.device_control_env_var, device_name=cls.device_name
        )

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Return the physical id of a logical id, that is, of a local rank.

        Called in the front end and in workers, for topology and network devices. Ids that were assigned to
        this process come first, then the device-control variable; without both, the id is the same.

        Args:
            device_id: logical id, counted from 0.

        Raises:
            IndexError: there are not so many devices.
            ValueError: the device-control variable has an entry that means no device.
        """
        from platform_abc import device_ids

        return device_ids.logical_to_physical(
            device_id,
            variable=cls.device_control_env_var,
            convert=cls.device_control_id_to_physical_device_id,
        )

    @classmethod
    def logical_device_id_to_visible_device_id(cls, device_id: int) -> int:
        """Return the visible id of a logical id: the N of `torch.device("cuda:N")`.

        Called in workers wherever a local rank becomes a torch device.

        Args:
            device_id: logical id, counted from 0.

        Raises:
            IndexError: there are not so many devices.
            ValueError: the device-control variable hides the device, or has an entry that means no device.
        """
        from platform_abc import device_ids

        return device_ids.logical_to_visible(
            device_id,
            variable=cls.device_control_env_var,
            convert=cls.device_control_id_to_physical_device_id,
        )

    @classmethod
    def visible_device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Return the physical id of a visible id, such as `torch.device.index`.

        Called in workers for topology. It does not depend on which ids were assigned to the process.

        Args:
            device_id: visible id, counted from 0.

        Raises:
            IndexError: the device-control variable lists fewer devices.
            ValueError: its entry means no device.
        """
        from platform_abc import device_ids

        return device_ids.visible_to_physical(
            device_id,
            variable=cls.device_control_env_var,
            convert=cls.device_control_id_to_physical_device_id,
        )

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return the compute capability of a device; None by default: the device has no such number.

        Called in every process, also while modules are imported, so it should not initialise the device.

        Args:
            device_id: visible id.
        """
        return None

    @classmethod
    def has_device_capability(cls, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        """Say whether a device has this capability or a later one; no if it has none at all.

        Args:
            capability: `(major, minor)`, or `major * 10 + minor`.
            device_id: visible id.
        """
        current = cls.get_device_capability(device_id)
        if current is None:
            return False
        if isinstance(capability, tuple):
            return (current.major, current.minor) >= capability
        return current.to_int() >= capability

    @classmethod
    def is_device_capability(cls, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        """Say whether a device has exactly this capability; no if it has none at all.

        Args:
            capability: `(major, minor)`, or `major * 10 + minor`.
            device_id: visible id.
        """
        current = cls.get_device_capability(device_id)
        if current is None:
            return False
        if isinstance(capability, tuple):
            return (current.major, current.minor) == capability
        return current.to_int() == capability

    @classmethod
    def is_device_capability_family(cls, capability: int, device_id: int = 0) -> bool:
        """Say whether a device has a capability of the same generation; no if it has none at all.

        Args:
            capability: `major * 10 + minor`; the minor number does not count.
            device_id: visible id.
        """
        current = cls.get_device_capability(device_id)
        return current is not None and current.major == capability // 10

    @classmethod
    @abstractmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the product name of a device, such as `"NVIDIA H100"`. Mandatory.

        Called in the front end and in workers, for logs and for tables of tuned kernel settings.

        Args:
            device_id: visible id.
        """

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return what identifies a device across processes and restarts.

        Called in workers that share a device's memory with others.

        Args:
            device_id: visible id.

        Raises:
            NotSupported: by default.
        """
        remedy = "override it with an identifier such as the PCI bus id"
        raise NotSupported("get_device_uuid", cls.__name__, remedy)

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the memory of a device.

        Called in the front end, for defaults that depend on the size, and in workers.

        Args:
            device_id: visible id.

        Returns:
            Bytes.

        Raises:
            NotSupported: by default.
        """
        remedy = "override it with the device's memory in bytes"
        raise NotSupported("get_device_total_memory", cls.__name__, remedy)

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """Return the PCI bus id of every physical device, by physical id.

        Called in workers when network devices are matched to accelerators.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported(
            "get_all_gpu_pci_bus_ids", cls.__name__, "override it with the PCI bus id of each physical device"
        )

    @classmethod
    def inference_mode(cls) -> AbstractContextManager[object]:
        """Return a context in which no gradient is recorded; `torch.inference_mode` by default.

        Entered in workers around each step. A device that cannot do inference mode returns
        `torch.no_grad()`.
        """
        import torch

        return torch.inference_mode(mode=True)

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Make a device the current one of this process (or thread).

        Called in workers while they start, and in threads that they start.

        Args:
            device: with the visible id as its index.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported("set_device", cls.__name__, "override it: make the device current in this thread")

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed the random generators of all visible devices.

        Called in workers before the model is loaded.

        Args:
            seed: any integer that torch takes.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported(
            "manual_seed_all", cls.__name__, "override it: seed the generators of all visible devices"
        )

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Say whether host memory can be pinned for faster copies; yes by default, but not under WSL.

        Called in workers, and in the front end by connectors.
        """
        return not in_wsl()

    @classmethod
    def get_current_memory_usage(cls, device: TorchDevice = None) -> float:
        """Return the bytes in use on a device.

        Called in workers before and after the model is loaded, to log what it takes.

        Args:
            device: the device; the current one if None.

        Returns:
            Bytes.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported(
            "get_current_memory_usage", cls.__name__, "override it with the bytes in use on the device"
        )

    @classmethod
    def get_infinity_values(cls, dtype: torch.dtype) -> tuple[float, float]:
        """Return what stands for minus and plus infinity; those of IEEE 754 by default.

        Args:
            dtype: the dtype of the tensor that will hold them.
        """
        return float("-inf"), float("inf")

    @classmethod
    def is_integrated_gpu(cls, device_id: int = 0) -> bool:
        """Say whether a device shares its memory with the host; no by default.

        Called in workers before free memory is measured: such a device reports too little, because memory
        that the host could give back does not count as free.

        Args:
            device_id: visible id.
        """
        return False

    @classmethod
    def fp8_dtype(cls) -> torch.dtype:
        """Return the preferred FP8 type, `torch.float8_e4m3fn` by default; it goes with `is_fp8_fnuz`.

        Called in every process, also while modules are imported.
        """
        import torch

        return torch.float8_e4m3fn

    def get_global_graph_pool(self) -> object:
        """Return the memory pool that all device graphs of this process share.

        Called in workers when graphs are captured. The first call asks `graph_pool_handle` of
        `torch.<device_type>`, or of the platform; later ones answer the same.

        Raises:
            NotSupported: there is no `graph_pool_handle`.
        """
        cls = type(self)
        with _making_pool:
            if cls._global_graph_pool is None:
                if not self.has_runtime("graph_pool_handle"):
                    remedy = "define graph_pool_handle, which torch lacks for this device"
                    raise NotSupported("get_global_graph_pool", cls.__name__, remedy)
                cls._global_graph_pool = self.graph_pool_handle()
            return cls._global_graph_pool

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls,
        backend: str,
        prefix_store: PrefixStore,
        group_rank: int,
        group_size: int,
        timeout: timedelta,
    ) -> ProcessGroup:
        """Make a process group that torch's global state does not know.

        Called in the engine core and in workers, for groups that come and go; with keywords only.

        Args:
            backend: name of the `torch.distributed` backend.
            prefix_store: where the ranks meet.
            group_rank: rank of this process, counted from 0.
            group_size: number of processes.
            timeout: for each collective.

        Raises:
            NotSupported: by default.
        """
        remedy = "override it with a process group of the platform's backend"
        raise NotSupported("stateless_init_device_torch_dist_pg", cls.__name__, remedy)

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return how many units compute in parallel: multiprocessors, compute units, cores.

        Called in workers, to size the grids of kernels.

        Args:
            device_id: visible id.

        Raises:
            NotSupported: by default.
        """
        raise NotSupported("num_compute_units", cls.__name__, "override it with the number of parallel units")

    @classmethod
    def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
        """Say whether each of these devices has a direct link to each other one; no by default.

        Called in workers by custom all-reduce, which needs such links.

        Args:
            physical_device_ids: physical ids.
        """
        return False

    @classmethod
    def get_cuda_runtime_major(cls) -> int:
        """Return the major version of the CUDA run time; 0 by default: there is none."""
        return 0

    @classmethod
    def insert_blocks_to_device(
        cls,
        src_cache: torch.Tensor,
        dst_cache: torch.Tensor,
        src_block_indices: torch.Tensor,
        dst_block_indices: torch.Tensor,
    ) -> None:
        """Copy blocks of a KV cache from the host to the device, with plain tensor operations by default.

        Called in workers when KV blocks arrive from another instance.

        Args:
            src_cache: on the host, shape `(blocks, …)`.
            dst_cache: on the device, the same shape but for the number of blocks; changed in place.
            src_block_indices: integers, shape `(n,)`.
            dst_block_indices: integers, shape `(n,)`.
        """
        dst_cache[dst_block_indices] = src_cache[src_block_indices].to(dst_cache.device)

    @classmethod
    def swap_out_blocks_to_host(
        cls,
        src_cache: torch.Tensor,
        dst_cache: torch.Tensor,
        src_block_indices: torch.Tensor,
        dst_block_indices: torch.Tensor,
    ) -> None:
        """Copy blocks of a KV cache from the device to the host, with plain tensor operations by default.

        Called in workers when KV blocks leave for another instance.

        Args:
            src_cache: on the device, shape `(blocks, …)`.
            dst_cache: on the host, the same shape but for the number of blocks; changed in place.
            src_block_indices: integers, shape `(n,)`.
            dst_block_indices: integers, shape `(n,)`.
        """
        dst_cache[dst_block_indices] = src_cache[src_block_indices].to(dst_cache.device)

    @classmethod
    def discover_numa_topology(cls) -> list[list[int]]:
        """Return the processor cores of each NUMA node; an empty list by default: not known.

        Called in workers, to reserve cores for KV transfer.
        """
        return []

    @classmethod
    def pack_kv_cache(cls, kv_cache: torch.Tensor, indices: torch.Tensor) -> None:
        """Bring received blocks of a KV cache into the layout that the attention kernels read, in place.

        Called in workers with keywords, after blocks came from an instance with another layout.

        Args:
            kv_cache: one layer's cache, shape `(blocks, …)`.
            indices: the blocks to repack, int64, shape `(n,)`, on the device.

        Raises:
            NotSupported: by default.
        """
        remedy = "override it, or transfer KV between instances of one platform only"
        raise NotSupported("pack_kv_cache", cls.__name__, remedy)

    @classmethod
    def get_all_device_numa_nodes(cls) -> list[int] | None:
        """Return the NUMA node of each visible device, by visible id; None by default: not known.

        Called in the front end, to bind worker processes to nodes.
        """
        return None
