"""Process groups that torch's global registry does not know, as the engine asks a platform for them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Backend, PrefixStore, ProcessGroup


def make_gloo_group(
    device_name: str, backend: str, store: PrefixStore, rank: int, size: int, timeout: timedelta
) -> ProcessGroup:
    """Make a gloo group over host memory.

    Args:
        device_name: the platform, for the message.
        backend: `gloo`.
        store: where the ranks meet.
        rank: rank of this process.
        size: number of ranks.
        timeout: longest wait of one collective.

    Raises:
        ValueError: another backend, or a torch without gloo.
    """
    import torch
    from torch.distributed import is_gloo_available

    _require(device_name, backend, "gloo", is_gloo_available())
    from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo

    made = ProcessGroupGloo(store, rank, size, timeout)
    return _wrap(ProcessGroup(store, rank, size), ProcessGroup.BackendType.GLOO, torch.device("cpu"), made)


def make_nccl_group(
    device_name: str, backend: str, store: PrefixStore, rank: int, size: int, timeout: timedelta
) -> ProcessGroup:
    """Make a NCCL group over device memory; ROCm's torch calls RCCL by the same name.

    Args:
        device_name: the platform, for the message.
        backend: `nccl`.
        store: where the ranks meet.
        rank: rank of this process.
        size: number of ranks.
        timeout: longest wait of one collective.

    Raises:
        ValueError: another backend, or a torch without NCCL.
    """
    import torch
    from torch.distributed import is_nccl_available

    _require(device_name, backend, "nccl", is_nccl_available())
    from torch._C._distributed_c10d import ProcessGroup, ProcessGroupNCCL

    options = ProcessGroupNCCL.Options()
    options._timeout = timeout
    made = ProcessGroupNCCL(store, rank, size, options)
    return _wrap(ProcessGroup(store, rank, size), ProcessGroup.BackendType.NCCL, torch.device("cuda"), made)


def make_xccl_group(
    device_name: str, backend: str, store: PrefixStore, rank: int, size: int, timeout: timedelta
) -> ProcessGroup:
    """Make an XCCL group over the memory of Intel devices.

    Args:
        device_name: the platform, for the message.
        backend: `xccl`.
        store: where the ranks meet.
        rank: rank of this process.
        size: number of ranks.
        timeout: longest wait of one collective.

    Raises:
        ValueError: another backend, or a torch without XCCL.
    """
    import torch
    from torch.distributed import is_xccl_available

    _require(device_name, backend, "xccl", is_xccl_available())
    from torch._C._distributed_c10d import ProcessGroup, ProcessGroupXCCL

    options = ProcessGroupXCCL.Options()
    options._timeout = timeout
    made = ProcessGroupXCCL(store, rank, size, options)
    return _wrap(ProcessGroup(store, rank, size), ProcessGroup.BackendType.XCCL, torch.device("xpu"), made)


def _require(device_name: str, asked: str, only: str, available: bool) -> None:
    if asked != only:
        raise ValueError(f"expected the backend {only!r} on {device_name}, got {asked!r}")
    if not available:
        raise ValueError(
            f"this build of torch has no {only}; install a torch built for {device_name}, or use another "
            "platform's process group"
        )


def _wrap(
    group: ProcessGroup, kind: ProcessGroup.BackendType, device: torch.device, backend: Backend
) -> ProcessGroup:
    group._set_default_backend(kind)
    backend._set_sequence_number_for_group()
    group._register_backend(device, kind, backend)
    return group
