"""Process groups that torch's global registry does not know, as the engine asks a platform for them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend, PrefixStore, ProcessGroup

_DEVICE_TYPES: Final = {"gloo": "cpu", "nccl": "cuda", "xccl": "xpu"}
"""What memory each backend moves, as torch's device type; ROCm's torch calls RCCL and its devices CUDA's."""


def make_group(
    device_name: str, backend: str, store: PrefixStore, rank: int, size: int, timeout: timedelta
) -> ProcessGroup:
    """Make a group.

    Args:
        device_name: the platform, for the message.
        backend: `gloo`, `nccl` or `xccl`.
        store: where the ranks meet.
        rank: rank of this process.
        size: number of ranks.
        timeout: longest wait of one collective.

    Raises:
        ValueError: another backend, or one that this torch was built without.
    """
    import torch
    from torch import distributed
    from torch._C import _distributed_c10d as c10d

    available = {
        "gloo": distributed.is_gloo_available,
        "nccl": distributed.is_nccl_available,
        "xccl": distributed.is_xccl_available,
    }
    if backend not in available:
        raise ValueError(
            f"expected one of {', '.join(available)}, got {backend!r}; a platform with a backend of its own "
            "overrides stateless_init_device_torch_dist_pg"
        )
    if not available[backend]():
        raise ValueError(
            f"this build of torch has no {backend}; install a torch built for {device_name}, or use another "
            "platform's process group"
        )
    made = _backend(backend, store, rank, size, timeout)
    kind = {
        "gloo": c10d.ProcessGroup.BackendType.GLOO,
        "nccl": c10d.ProcessGroup.BackendType.NCCL,
        "xccl": c10d.ProcessGroup.BackendType.XCCL,
    }[backend]
    group = c10d.ProcessGroup(store, rank, size)
    group._set_default_backend(kind)
    made._set_sequence_number_for_group()
    group._register_backend(torch.device(_DEVICE_TYPES[backend]), kind, made)
    return group


def _backend(name: str, store: PrefixStore, rank: int, size: int, timeout: timedelta) -> Backend:
    # One class a branch: a build of torch lacks the classes of what it was not built for.
    from torch._C import _distributed_c10d as c10d

    if name == "gloo":
        return c10d.ProcessGroupGloo(store, rank, size, timeout)
    if name == "nccl":
        nccl = c10d.ProcessGroupNCCL.Options()
        nccl._timeout = timeout
        return c10d.ProcessGroupNCCL(store, rank, size, nccl)
    xccl = c10d.ProcessGroupXCCL.Options()
    xccl._timeout = timeout
    return c10d.ProcessGroupXCCL(store, rank, size, xccl)
