"""Facts about communication between ranks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from reference_engine import parallel

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"


def test_a_group_of_one_moves_nothing_and_asks_for_no_communicator(use_platform: Use) -> None:
    """Results are the inputs themselves."""

    def fails(_cls: type) -> str:
        raise AssertionError

    use_platform(get_device_communicator_cls=fails)
    store = torch.distributed.HashStore()
    group = use_platform().stateless_init_device_torch_dist_pg(
        "gloo", torch.distributed.PrefixStore("g", store), 0, 1, timedelta(seconds=10)
    )
    use_platform(get_device_communicator_cls=fails)
    made = parallel.GroupCoordinator(group, group, torch.device("cpu"), "tp")
    tensor = torch.ones(2)
    assert made.all_reduce(tensor) is tensor
    assert made.gather_logits(tensor) is tensor
    made_by_name = use_platform() and parallel.make_communicator(group, group, torch.device("cpu"), "tp")
    assert made_by_name.world_size == 1


def test_larger_groups_go_through_the_communicator(use_platform: Use) -> None:
    """Whether logits are gathered everywhere is the platform's answer."""

    class Two:
        def size(self) -> int:
            return 2

        def rank(self) -> int:
            return 1

    class Comm:
        def all_reduce(self, tensor: torch.Tensor) -> str:
            return "reduced"

        def all_gather(self, tensor: torch.Tensor, dim: int) -> str:
            return f"gathered {dim}"

        def gather(self, tensor: torch.Tensor, dst: int, dim: int) -> str:
            return f"gathered {dim} to {dst}"

    two: Any = Two()
    for everywhere, expected in ((True, "gathered -1"), (False, "gathered -1 to 0")):
        use_platform(use_all_gather=lambda _cls, answer=everywhere: answer)
        made = parallel.GroupCoordinator(two, two, torch.device("cpu"), "tp")
        made.communicator = Comm()  # type: ignore[assignment]
        assert made.all_reduce(torch.ones(1)) == "reduced"
        assert made.gather_logits(torch.ones(1)) == expected
