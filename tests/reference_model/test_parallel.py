"""Facts about communication between ranks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from platform_abc.components.communicator import DeviceCommunicatorBase
from platform_abc.config import EngineConfig, ParallelConfig
from platform_abc.errors import ConfigError
from platforms.components.communicator import TorchDistributedCommunicator
from reference_model import parallel
from reference_model.opaque_ops import register_ops

Use = Callable[..., Any]


class Two(TorchDistributedCommunicator):
    """The first of two ranks, whose transport says what it was asked for."""

    def __init__(self) -> None:
        self.world_size, self.rank_in_group = 2, 0

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        return input_ + 10

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        return input_ + 20 + dim

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        return None


def worker(size: int, communicator: DeviceCommunicatorBase | None) -> Any:
    config = EngineConfig(parallel_config=ParallelConfig(tensor_parallel_size=size))
    return SimpleNamespace(vllm_config=config, communicator=communicator)


def test_a_group_of_one_moves_nothing(use_platform: Use) -> None:
    """Results are the inputs themselves, also of a worker that has no communicator."""
    use_platform()
    for made in (parallel.GroupCoordinator(), parallel.group_of(worker(1, None))):
        tensor = torch.ones(2)
        assert made.all_reduce(tensor) is tensor
        assert made.gather_logits(tensor) is tensor
        assert (made.rank, made.world_size) == (0, 1)


@pytest.mark.parametrize("opaque", [False, True])
def test_larger_groups_go_through_the_communicator(use_platform: Use, opaque: bool) -> None:
    """Through a custom op or not, and gathering everywhere or to the first rank, as the platform says."""
    register_ops("CPU")
    use_platform(use_custom_op_collectives=lambda _cls: opaque)
    made = parallel.group_of(worker(2, Two()))
    assert made.all_reduce(torch.ones(1)).tolist() == [11]
    assert made.gather_logits(torch.ones(1)).tolist() == [20]  # type: ignore[union-attr]
    use_platform(use_all_gather=lambda _cls: False)
    assert parallel.group_of(worker(2, Two())).gather_logits(torch.ones(1)) is None


def test_a_worker_without_a_communicator_for_its_ranks_is_refused(use_platform: Use) -> None:
    """The text says what is missing where."""
    use_platform()
    for given in (None, 3):
        with pytest.raises(ConfigError, match=r"tensor_parallel_size = 2: .* has a communicator of 1 ranks"):
            parallel.group_of(worker(2, given))  # type: ignore[arg-type]
