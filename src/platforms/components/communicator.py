"""A communicator between devices over `torch.distributed`, whatever its backend is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from platform_abc.components.communicator import DeviceCommunicatorBase

_TAG: Final = 0

_SUMMED: Final = frozenset(
    {
        torch.uint8,
        torch.int8,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    }
)
"""Dtypes that gloo, NCCL and XCCL all add up; a sum of any other is taken in a wider one."""


class TorchDistributedCommunicator(DeviceCommunicatorBase):
    """Moves tensors by the collectives of the device group.

    The methods of the group itself are called, not the functions of `torch.distributed`, so that groups
    which torch's global registry does not know work too. A group of one rank moves nothing. Ranks in
    arguments are ranks within the group. Every dtype works, whatever the backend knows: tensors are moved
    as bytes, and added up in a wider dtype where need be. A sum of booleans says whether any is true. Tensors
    without elements are not moved: every rank knows that there is nothing to wait for. Gradients do not pass.
    """

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks; the input is left alone.

        Args:
            input_: any shape, the same on all ranks.
        """
        if self.world_size == 1:
            return input_
        result = _dense(input_).to(_summing_dtype(input_.dtype), copy=True)
        if result.numel():
            self.device_group.allreduce([result]).wait()
        return result.to(input_.dtype)

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`, in rank order.

        Args:
            input_: any shape of one dimension or more, the same on all ranks.
            dim: the dimension that grows; negative ones count from the end.

        Raises:
            ValueError: there is no such dimension.
        """
        dim = _dimension(input_, dim)
        if self.world_size == 1:
            return input_
        return torch.cat(self._gathered(input_), dim=dim)

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return this rank's share of the sum over all ranks.

        Args:
            input_: any shape, the same on all ranks.
            dim: the dimension that is divided; a multiple of the number of ranks.

        Raises:
            ValueError: there is no such dimension, or it cannot be divided evenly.
        """
        dim = _dimension(input_, dim)
        if input_.shape[dim] % self.world_size:
            raise ValueError(
                f"expected dimension {dim} of {tuple(input_.shape)} to be a multiple of the {self.world_size} ranks"
            )
        if self.world_size == 1:
            return input_
        summed = _dense(input_).to(_summing_dtype(input_.dtype))
        shares = [share.contiguous() for share in summed.chunk(self.world_size, dim=dim)]
        result = torch.empty_like(shares[self.rank_in_group])
        if result.numel():
            self.device_group.reduce_scatter([result], [shares]).wait()
        return result.to(input_.dtype)

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Return all ranks' tensors joined along `dim` on rank `dst`, None elsewhere.

        Args:
            input_: any shape of one dimension or more, the same on all ranks.
            dst: the receiving rank.
            dim: the dimension that grows.

        Raises:
            ValueError: there is no such rank or dimension.
        """
        dim = _dimension(input_, dim)
        self._require_rank(dst)
        if self.world_size == 1:
            return input_
        # Not every backend gathers to one rank; all of them gather to all.
        parts = self._gathered(input_)
        return torch.cat(parts, dim=dim) if self.rank_in_group == dst else None

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Return the tensor of rank `src` on every rank; filled in place.

        Args:
            tensor: any shape, the same on all ranks.
            src: the sending rank.

        Raises:
            ValueError: there is no such rank.
        """
        self._require_rank(src)
        if self.world_size == 1 or tensor.numel() == 0:
            return tensor
        moved = _dense(tensor)
        self.device_group.broadcast(_bytes(moved), src).wait()
        if moved.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(moved)
        return tensor

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        """Send a tensor, and return when it may be changed.

        Args:
            tensor: what to send.
            dst: the receiving rank; None is the next one.

        Raises:
            ValueError: there is no such rank, or it is this one.
        """
        target = self.next_rank() if dst is None else dst
        self._require_other(target)
        if tensor.numel():
            self.device_group.send([_bytes(_dense(tensor))], target, _TAG).wait()

    def recv(self, size: Sequence[int], dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        """Return a tensor that another rank sends.

        Args:
            size: its shape.
            dtype: its dtype.
            src: the sending rank; None is the previous one.

        Raises:
            ValueError: there is no such rank, or it is this one.
        """
        source = self.previous_rank() if src is None else src
        self._require_other(source)
        result = torch.empty(tuple(size), dtype=dtype, device=self.device)
        if result.numel():
            self.device_group.recv([_bytes(result)], source, _TAG).wait()
        return result

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        if self.world_size > 1:
            self.cpu_group.barrier().wait()

    def _gathered(self, input_: torch.Tensor) -> list[torch.Tensor]:
        own = _dense(input_)
        parts = [torch.empty_like(own) for _ in range(self.world_size)]
        if own.numel():
            self.device_group.allgather([[_bytes(part) for part in parts]], [_bytes(own)]).wait()
        return parts

    def _require_rank(self, rank: int) -> None:
        if not 0 <= rank < self.world_size:
            raise ValueError(
                f"expected a rank from 0 to {self.world_size - 1} within the group {self.unique_name!r}, got {rank}"
            )

    def _require_other(self, rank: int) -> None:
        self._require_rank(rank)
        if rank == self.rank_in_group:
            raise ValueError(f"rank {rank} cannot exchange a tensor with itself")


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with its elements in memory one after the other, as they are; copied only if need be."""
    # A conjugate or negative that torch has only noted lies in memory as it was.
    return tensor.detach().contiguous().resolve_conj().resolve_neg()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of a contiguous tensor as `uint8`, `[n]`; it is shared, not copied."""
    return tensor.view(-1).view(torch.uint8)


def _summing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which tensors of a dtype are added up."""
    if dtype in _SUMMED:
        return dtype
    if dtype.is_complex:
        return torch.complex64
    return torch.float32 if dtype.is_floating_point else torch.int64


def _dimension(tensor: torch.Tensor, dim: int) -> int:
    """Return `dim` counted from the front.

    Raises:
        ValueError: the tensor has no such dimension.
    """
    if not -tensor.dim() <= dim < tensor.dim():
        raise ValueError(f"expected a dimension of a tensor of shape {tuple(tensor.shape)}, got {dim}")
    return dim % tensor.dim()
