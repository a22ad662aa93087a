"""Facts of `CudaGraphWrapper` on a GPU; skipped where there is none."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
import torch

from platform_abc.components.graph import BatchDescriptor, graph_step
from platform_abc.config import CUDAGraphMode, EngineConfig
from platforms.components.cuda_graph import CudaGraphWrapper
from platforms.components.triton_attention import TritonImpl, TritonMetadata
from tests.platforms.components.kernel_cases import Layer

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


def test_a_captured_attention_follows_the_metadata_of_its_step() -> None:
    """Other lengths, blocks and slots of the same shapes are replayed by one graph."""
    pytest.importorskip("triton")
    impl = TritonImpl(4, 64, 0.125, 2)
    cache = torch.zeros(2, 16, 16, 2, 64, device="cuda")
    other = cache.clone()

    def step(q: torch.Tensor, k: torch.Tensor, metadata: TritonMetadata, cache: torch.Tensor) -> torch.Tensor:
        return impl.forward(Layer(), q, k, k, cache, metadata)

    wrapper = CudaGraphWrapper(
        step, vllm_config=EngineConfig(), runtime_mode=CUDAGraphMode.FULL, persistent=("cache",)
    )
    for length in range(1, 40):
        table = torch.tensor([[0, 2, 4], [5, 3, 1]], dtype=torch.int32, device="cuda")
        place = (length - 1) // 16
        metadata = TritonMetadata(
            query_starts=torch.tensor([0, 1, 2], dtype=torch.int32, device="cuda"),
            seq_lens=torch.full((2,), length, dtype=torch.int32, device="cuda"),
            block_table=table,
            slot_mapping=table[:, place].long() * 16 + (length - 1) % 16,
            max_query_len=1,
        )
        q, k = torch.randn(2, 4, 64, device="cuda"), torch.randn(2, 2, 64, device="cuda")
        with graph_step(CUDAGraphMode.FULL, BatchDescriptor(2)):
            got = wrapper(q, k, metadata, cache)
        torch.testing.assert_close(got, step(q, k, metadata, other))
    assert wrapper.num_graphs == 1
