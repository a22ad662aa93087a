"""The collectives of one group of ranks, as `get_device_communicator_cls` names them."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


class DeviceCommunicatorBase(abc.ABC):
    """Moves tensors between the ranks of one group, on the platform's device.

    In a group of one rank the collectives answer at once, without the transport. The groups are not registered with
    `torch.distributed`, which has no default group here: rank and size are attributes, peers are given as ranks
    of the group (`group_src`, `group_dst`), and `recv` is the group's own.

    Attributes:
        rank_in_group: this rank's number within the group.
        world_size: number of ranks.

    Args:
        cpu_group: the group over host memory, for control messages.
        device: the device of this rank.
        device_group: the group over device memory; None takes `cpu_group`.
        unique_name: name of the group, for logs.
    """

    def __init__(
        self,
        cpu_group: ProcessGroup,
        device: torch.device | None = None,
        device_group: ProcessGroup | None = None,
        unique_name: str = "",
    ) -> None:
        self.cpu_group = cpu_group
        self.device = device
        self.device_group = cpu_group if device_group is None else device_group
        self.unique_name = unique_name
        self.rank_in_group: int = self.device_group.rank()
        self.world_size: int = self.device_group.size()

    @abc.abstractmethod
    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks, on every rank; the input is left alone or reused.

        Args:
            input_: any shape, the same on all ranks.
        """

    @abc.abstractmethod
    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`, in rank order, on every rank.

        Args:
            input_: any shape, the same on all ranks.
            dim: the dimension that grows by the number of ranks.
        """

    @abc.abstractmethod
    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return this rank's share of the sum over all ranks.

        Args:
            input_: any shape, the same on all ranks; `dim` is a multiple of the number of ranks.
            dim: the dimension that is divided.
        """

    @abc.abstractmethod
    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Return all ranks' tensors joined along `dim` on rank `dst`, None elsewhere.

        Args:
            input_: any shape, the same on all ranks.
            dst: the receiving rank, within the group.
            dim: the dimension that grows.
        """

    @abc.abstractmethod
    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Return the tensor of rank `src` on every rank; filled in place.

        Args:
            tensor: any shape, the same on all ranks.
            src: the sending rank, within the group.
        """

    @abc.abstractmethod
    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        """Send a tensor.

        Args:
            tensor: what to send.
            dst: the receiving rank within the group; None is the next one.
        """

    @abc.abstractmethod
    def recv(self, size: Sequence[int], dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        """Return a tensor that another rank sends.

        Args:
            size: its shape.
            dtype: its dtype.
            src: the sending rank within the group; None is the previous one.
        """

    @abc.abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def next_rank(self) -> int:
        """Return the rank after this one, within the group."""
        return (self.rank_in_group + 1) % self.world_size

    def previous_rank(self) -> int:
        """Return the rank before this one, within the group."""
        return (self.rank_in_group - 1) % self.world_size

    def destroy(self) -> None:
        """Free what the communicator holds apart from its groups; by default nothing."""
        return
