"""What an engine requires of a platform's device: the Protocols of the Device group.

`platform_abc.device` has the defaults, says what the three kinds of ids are, and exports these names too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import TypeIs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta

    import torch
    from torch._C._distributed_c10d import PrefixStore, ProcessGroup
    from torch.types import Device as TorchDevice

    from platform_abc.types import DeviceCapabilityLike


class DeviceLike(Protocol):
    """What an engine requires of a platform's device; frozen within a major version of the contract."""

    @property
    def supported_dtypes(self) -> Sequence[torch.dtype]:
        """The dtypes that models can compute in, best first."""
        ...

    def device_control_id_to_physical_device_id(self, device_id: str, /) -> int:
        """Return the physical id that one entry of the device-control variable means."""
        ...

    def device_id_to_physical_device_id(self, device_id: int, /) -> int:
        """Return the physical id of a logical id."""
        ...

    def logical_device_id_to_visible_device_id(self, device_id: int, /) -> int:
        """Return the visible id of a logical id."""
        ...

    def visible_device_id_to_physical_device_id(self, device_id: int, /) -> int:
        """Return the physical id of a visible id."""
        ...

    def get_device_capability(self, device_id: int = 0, /) -> DeviceCapabilityLike | None:
        """Return the compute capability of a device; None if it has none."""
        ...

    def has_device_capability(self, capability: tuple[int, int] | int, device_id: int = 0, /) -> bool:
        """Say whether a device has this capability or a later one."""
        ...

    def is_device_capability(self, capability: tuple[int, int] | int, device_id: int = 0, /) -> bool:
        """Say whether a device has exactly this capability."""
        ...

    def is_device_capability_family(self, capability: int, /, device_id: int = 0) -> bool:
        """Say whether a device has a capability of the same generation."""
        ...

    def get_device_name(self, device_id: int = 0, /) -> str:
        """Return the product name of a device."""
        ...

    def get_device_uuid(self, device_id: int = 0, /) -> str:
        """Return what identifies a device across processes and restarts."""
        ...

    def get_device_total_memory(self, device_id: int = 0, /) -> int:
        """Return the memory of a device, in bytes."""
        ...

    def get_all_gpu_pci_bus_ids(self) -> Mapping[int, str]:
        """Return the PCI bus id of every physical device."""
        ...

    def inference_mode(self) -> AbstractContextManager[object]:
        """Return a context in which no gradient is recorded."""
        ...

    def set_device(self, device: torch.device, /) -> None:
        """Make a device the current one of this process."""
        ...

    def manual_seed_all(self, seed: int, /) -> None:
        """Seed the random generators of all visible devices."""
        ...

    def is_pin_memory_available(self) -> bool:
        """Say whether host memory can be pinned for faster copies."""
        ...

    def get_current_memory_usage(self, device: TorchDevice = None, /) -> float:
        """Return the bytes in use on a device."""
        ...

    def get_infinity_values(self, dtype: torch.dtype, /) -> tuple[float, float]:
        """Return what stands for minus and plus infinity."""
        ...

    def is_integrated_gpu(self, device_id: int = 0, /) -> bool:
        """Say whether a device shares its memory with the host."""
        ...

    def fp8_dtype(self) -> torch.dtype:
        """Return the preferred FP8 type."""
        ...

    def get_global_graph_pool(self) -> object:
        """Return the memory pool that all device graphs of this process share."""
        ...

    def stateless_init_device_torch_dist_pg(
        self,
        *,
        backend: str,
        prefix_store: PrefixStore,
        group_rank: int,
        group_size: int,
        timeout: timedelta,
    ) -> ProcessGroup:
        """Make a process group that torch's global state does not know."""
        ...

    def num_compute_units(self, device_id: int = 0, /) -> int:
        """Return how many units compute in parallel: multiprocessors, compute units, cores."""
        ...


class DeviceV2Like(DeviceLike, Protocol):
    """`DeviceLike` and what came after it. Narrow to it with `has_device_v2`."""

    def is_fully_connected(self, physical_device_ids: list[int], /) -> bool:
        """Say whether each of these devices has a direct link to each other one."""
        ...

    def get_cuda_runtime_major(self) -> int:
        """Return the major version of the CUDA run time; 0 if there is none."""
        ...

    def insert_blocks_to_device(
        self,
        src_cache: torch.Tensor,
        dst_cache: torch.Tensor,
        src_block_indices: torch.Tensor,
        dst_block_indices: torch.Tensor,
        /,
    ) -> None:
        """Copy blocks of a KV cache from the host to the device."""
        ...

    def swap_out_blocks_to_host(
        self,
        src_cache: torch.Tensor,
        dst_cache: torch.Tensor,
        src_block_indices: torch.Tensor,
        dst_block_indices: torch.Tensor,
        /,
    ) -> None:
        """Copy blocks of a KV cache from the device to the host."""
        ...

    def discover_numa_topology(self) -> Sequence[Sequence[int]]:
        """Return the processor cores of each NUMA node."""
        ...

    def pack_kv_cache(self, *, kv_cache: torch.Tensor, indices: torch.Tensor) -> None:
        """Bring received blocks of a KV cache into the layout that the attention kernels read."""
        ...

    def get_all_device_numa_nodes(self) -> Sequence[int] | None:
        """Return the NUMA node of each visible device; None if not known."""
        ...


_DEVICE_V2: Final = (
    "is_fully_connected",
    "get_cuda_runtime_major",
    "insert_blocks_to_device",
    "swap_out_blocks_to_host",
    "discover_numa_topology",
    "pack_kv_cache",
    "get_all_device_numa_nodes",
)


def has_device_v2(platform: DeviceLike, /) -> TypeIs[DeviceV2Like]:
    """Say whether the platform has the device hooks that version 2 added.

    It asks the type: the instance would answer every name, by the torch fallback.
    """
    return all(callable(getattr(type(platform), name, None)) for name in _DEVICE_V2)
