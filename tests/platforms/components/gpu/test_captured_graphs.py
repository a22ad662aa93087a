"""Facts of `CudaGraphWrapper` on a GPU; skipped where there is none."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
import torch

from platform_abc.components.graph import BatchDescriptor, graph_step
from platform_abc.config import CUDAGraphMode, EngineConfig
from platforms.components.cuda_graph import CudaGraphWrapper

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def test_a_replay_equals_an_eager_step_on_fresh_inputs() -> None:
    """In every dtype and for several shapes in one pool; earlier answers keep their values."""
    weight = torch.randn(64, 64, device="cuda")
    store = torch.zeros(8, 64, device="cuda")

    def step(x: torch.Tensor, store: torch.Tensor) -> dict[str, torch.Tensor]:
        store[: x.shape[0]] += x
        return {"sum": (x @ weight).relu(), "turned": (x @ weight).t()}

    wrapper = CudaGraphWrapper(
        step,
        vllm_config=EngineConfig(),
        runtime_mode=CUDAGraphMode.FULL,
        graph_pool=torch.cuda.graph_pool_handle(),
        persistent=("store",),
    )
    answers = []
    for turn in range(3):
        for rows in (1, 3, 8):
            x = torch.randn(rows, 64, device="cuda", generator=None) + turn
            with graph_step(CUDAGraphMode.FULL, BatchDescriptor(rows)):
                answers.append((x, wrapper(x, store)))
    torch.cuda.synchronize()
    assert wrapper.num_graphs == 3
    for x, answer in answers:
        torch.testing.assert_close(answer["sum"], (x @ weight).relu())
        torch.testing.assert_close(answer["turned"], (x @ weight).t())
