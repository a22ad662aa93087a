"""Communication between ranks, through the communicator that the platform picks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_abc.components.communicator import DeviceCommunicatorBase
from reference_engine.picked import resolve_picked

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


class GroupCoordinator:
    """The ranks of one group; every transport goes through the platform's communicator.

    A group of one never asks for the communicator.

    Args:
        cpu_group: the group over host memory.
        device_group: the group over device memory.
        device: the device of this rank.
        name: name of the group, for logs.

    Raises:
        ValueError: what the platform names is no communicator.
    """

    def __init__(
        self, cpu_group: ProcessGroup, device_group: ProcessGroup, device: torch.device, name: str
    ) -> None:
        from platforms import current_platform

        self.world_size: int = device_group.size()
        self.rank: int = device_group.rank()
        self.use_custom_op = current_platform.use_custom_op_collectives()
        self.gathers_everywhere = current_platform.use_all_gather()
        self.communicator: DeviceCommunicatorBase | None = None
        if self.world_size > 1:
            self.communicator = make_communicator(cpu_group, device_group, device, name)

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks, on every rank.

        Args:
            tensor: any shape, the same on all ranks.
        """
        return tensor if self.communicator is None else self.communicator.all_reduce(tensor)

    def gather_logits(self, logits: torch.Tensor) -> torch.Tensor | None:
        """Return all ranks' columns joined; on rank 0 only where the platform gathers to one rank.

        Args:
            logits: `[T, share of the vocabulary]`.
        """
        if self.communicator is None:
            return logits
        if self.gathers_everywhere:
            return self.communicator.all_gather(logits, dim=-1)
        return self.communicator.gather(logits, dst=0, dim=-1)


def make_communicator(
    cpu_group: ProcessGroup, device_group: ProcessGroup, device: torch.device, name: str
) -> DeviceCommunicatorBase:
    """Return the communicator that the platform names, over two groups of the same ranks.

    Args:
        cpu_group: the group over host memory.
        device_group: the group over device memory.
        device: the device of this rank.
        name: name of the group, for logs.

    Raises:
        ValueError: what the platform names is no communicator.
    """
    from platforms import current_platform

    picked = current_platform.get_device_communicator_cls()
    chosen = resolve_picked("get_device_communicator_cls", picked, DeviceCommunicatorBase)
    return chosen(cpu_group, device=device, device_group=device_group, unique_name=name)
