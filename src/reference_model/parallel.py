"""Communication between tensor-parallel ranks, through the communicator of the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_abc.components.communicator import DeviceCommunicatorBase
from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from platform_abc.components.worker import WorkerBase

NAME = "tensor-parallel"
"""Name of the one group of a process, by which custom ops find it."""

_groups: dict[str, GroupCoordinator] = {}


class GroupCoordinator:
    """The ranks that share a model; a group of one moves nothing.

    Args:
        communicator: what the platform picked; None for a group of one.
    """

    def __init__(self, communicator: DeviceCommunicatorBase | None = None) -> None:
        from platforms import current_platform

        self.world_size = 1 if communicator is None else communicator.world_size
        self.rank = 0 if communicator is None else communicator.rank_in_group
        self.communicator = None if self.world_size == 1 else communicator
        self.use_custom_op = current_platform.use_custom_op_collectives()
        self.gathers_everywhere = current_platform.use_all_gather()

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks, on every rank.

        Args:
            tensor: any shape, the same on all ranks.
        """
        if self.communicator is None:
            return tensor
        if self.use_custom_op:
            from reference_model.custom_ops import all_reduce

            _groups[NAME] = self
            return all_reduce(tensor, NAME)
        return self.communicator.all_reduce(tensor)

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


def reduce_by_name(tensor: torch.Tensor, group: str) -> torch.Tensor:
    """Return the sum over the ranks of a named group, as the custom op asks for it.

    Args:
        tensor: any shape, the same on all ranks.
        group: its name.
    """
    communicator = _groups[group].communicator
    # An op may not return what it was given, and a communicator may reuse its input.
    return tensor.clone() if communicator is None else communicator.all_reduce(tensor.clone())


def group_of(worker: WorkerBase) -> GroupCoordinator:
    """Return the ranks among which a worker shares its model.

    Args:
        worker: its device initialised; `communicator` is what it uses between ranks.

    Raises:
        ConfigError: there are several ranks, and the worker has no communicator for them.
    """
    communicator: object = getattr(worker, "communicator", None)
    size = worker.vllm_config.parallel_config.tensor_parallel_size
    if not isinstance(communicator, DeviceCommunicatorBase):
        communicator = None
    found = 1 if communicator is None else communicator.world_size
    if found != size:
        raise ConfigError(
            f"parallel_config.tensor_parallel_size = {size}: {type(worker).__name__} has a communicator of "
            f"{found} ranks after init_device, in its attribute communicator; expected one of {size}"
        )
    return GroupCoordinator(communicator)
