"""Communicators of the zoo: one that only sends and receives, which is right, and one for each mistake."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from platform_abc.components.communicator import DeviceCommunicatorBase
from platforms.components.communicator import TorchDistributedCommunicator as Base


class ByMessages(DeviceCommunicatorBase):
    """Everything by messages from rank to rank, over the host's group; an input is reused where that is allowed."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks, in the input itself."""
        parts = self._parts(input_)
        input_.copy_(sum(parts[1:], parts[0]))
        return input_

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`."""
        return torch.cat(self._parts(input_), dim=dim)

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return this rank's share of the sum."""
        parts = self._parts(input_)
        return sum(parts[1:], parts[0]).chunk(self.world_size, dim)[self.rank_in_group]

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Return all ranks' tensors joined on rank `dst`."""
        joined = self.all_gather(input_, dim)
        return joined if self.rank_in_group == dst else None

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Fill the tensor with that of rank `src`."""
        return tensor.copy_(self._parts(tensor)[src])

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        """Send a tensor."""
        self.cpu_group.send([tensor.contiguous()], self.next_rank() if dst is None else dst, 7).wait()

    def recv(self, size: Sequence[int], dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        """Return a tensor that another rank sends."""
        got = torch.empty(tuple(size), dtype=dtype)
        self.cpu_group.recv([got], self.previous_rank() if src is None else src, 7).wait()
        return got

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self._parts(torch.zeros(1))

    def _parts(self, own: torch.Tensor) -> list[torch.Tensor]:
        parts: list[torch.Tensor] = []
        for rank in range(self.world_size):
            part = own.clone(memory_format=torch.contiguous_format)
            if rank == self.rank_in_group:
                for other in range(self.world_size):
                    if other != rank:
                        self.send(part, other)
            else:
                part = self.recv(own.shape, own.dtype, rank)
            parts.append(part)
        return parts


class ForgetsRank(Base):
    """Its sum leaves the last rank out."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        last = self.rank_in_group == self.world_size - 1
        return super().all_reduce(torch.zeros_like(input_) if last else input_)


class TakesMean(Base):
    """It averages instead of adding up."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        return (super().all_reduce(input_) / self.world_size).to(input_.dtype)


class ReducesNothing(Base):
    """It gives each rank what it had."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        return input_


class WidensSum(Base):
    """It returns the float32 in which it added up."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        return super().all_reduce(input_.float())


class Hangs(Base):
    """On all ranks but the first it waits for a message that nobody sends."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        if self.rank_in_group == 0:
            return input_
        return self.recv(input_.shape, input_.dtype)


class Dies(Base):
    """It ends the process where there is more than one dimension."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        if input_.dim() > 1:
            os._exit(0)
        return super().all_reduce(input_)


class GathersReversed(Base):
    """It joins the ranks from the last to the first."""

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`."""
        return torch.cat(self._gathered(input_)[::-1], dim=dim)


class GathersOwnFirst(Base):
    """Each rank puts its own part first."""

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`."""
        parts, own = self._gathered(input_), self.rank_in_group
        return torch.cat([*parts[own:], *parts[:own]], dim=dim)


class GathersRows(Base):
    """It joins rows, whatever dimension is asked for."""

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`."""
        shape = list(input_.shape)
        shape[dim] *= self.world_size
        return torch.cat(self._gathered(input_), dim=0).reshape(shape)


class GatherChangesInput(Base):
    """It clears the tensor that it gathers."""

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`."""
        joined = super().all_gather(input_, dim)
        input_.zero_()
        return joined


class ScattersNext(Base):
    """Each rank gets the share of the next one."""

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return this rank's share of the sum."""
        return self.all_reduce(input_).chunk(self.world_size, dim)[self.next_rank()].contiguous()


class ScattersUnsummed(Base):
    """It divides without adding up."""

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return this rank's share of the sum."""
        return input_.chunk(self.world_size, dim)[self.rank_in_group].contiguous()


class GathersEverywhere(Base):
    """All ranks get what one should."""

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Return all ranks' tensors joined on rank `dst`."""
        return self.all_gather(input_, dim)


class GathersAtZero(Base):
    """It does not look at `dst`."""

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Return all ranks' tensors joined on rank `dst`."""
        return super().gather(input_, 0, dim)


class BroadcastsCopy(Base):
    """It returns the right tensor and leaves the given one as it was."""

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Return the tensor of rank `src`."""
        return super().broadcast(tensor.clone(), src)


class BroadcastsFromZero(Base):
    """It does not look at `src`."""

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Return the tensor of rank `src`."""
        return super().broadcast(tensor, 0)


class SendsEarly(Base):
    """It sends what the memory of a tensor holds, in the order in which it lies there."""

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        """Send a tensor."""
        super().send(tensor.as_strided((tensor.numel(),), (1,)), dst)


class ReceivesFromNext(Base):
    """Its default peer to receive from is the next rank, and to send to the previous one."""

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        """Send a tensor."""
        super().send(tensor, self.previous_rank() if dst is None else dst)

    def recv(self, size: Sequence[int], dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        """Return a tensor that another rank sends."""
        return super().recv(size, dtype, self.next_rank() if src is None else src)


class NoBarrier(Base):
    """Its barrier waits for nobody."""

    def barrier(self) -> None:
        """Return when all ranks have called it."""


class ThinksItIsAlone(Base):
    """It takes its rank from a variable that only some launchers set."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rank_in_group = int(os.environ.get("CHIP_RANK", "0"))


class SlowStart(Base):
    """Takes its time to start, which is allowed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        time.sleep(0.2)


class AloneDivides(Base):
    """It divides by the number of other ranks."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        if self.world_size == 1:
            return input_ / (self.world_size - 1)
        return super().all_reduce(input_)


class RankOfFirst(Base):
    """It takes the rank of the first group of its process in all groups."""

    known: ClassVar[list[int]] = []

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Return all ranks' tensors joined on rank `dst`."""
        self.known.append(self.rank_in_group)
        joined = self.all_gather(input_, dim)
        return joined if self.known[0] == dst else None


class RowsByDefault(Base):
    """It joins rows where no dimension is given."""

    def all_gather(self, input_: torch.Tensor, dim: int = 0) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`."""
        return super().all_gather(input_, dim)

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """Return all ranks' tensors joined on rank `dst`."""
        return super().gather(input_, dst, dim)


class ReusesBuffer(Base):
    """It gathers into one buffer for each shape."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.buffers: dict[object, torch.Tensor] = {}

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return all ranks' tensors joined along `dim`."""
        if self.world_size == 1:
            return input_
        joined = super().all_gather(input_, dim)
        return self.buffers.setdefault((joined.shape, joined.dtype), joined).copy_(joined)


class OneBuffer(Base):
    """It receives into one buffer for each shape."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.buffers: dict[object, torch.Tensor] = {}

    def recv(self, size: Sequence[int], dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        """Return a tensor that another rank sends."""
        got = super().recv(size, dtype, src)
        return self.buffers.setdefault((got.shape, dtype), got).copy_(got)


class BroadcastsFloats(Base):
    """It broadcasts whole numbers as float32."""

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Fill the tensor with that of rank `src`."""
        if tensor.is_floating_point():
            return super().broadcast(tensor, src)
        return tensor.copy_(super().broadcast(tensor.float(), src).to(tensor.dtype))


class LargeTail(Base):
    """It adds up whole multiples of 64 KiB, once there are as many."""

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks."""
        result = super().all_reduce(input_)
        whole = input_.nbytes // (1 << 16) * (1 << 16) // input_.itemsize
        if whole and self.world_size > 1:
            result.view(-1)[whole:] = input_.reshape(-1)[whole:]
        return result
