"""Facts about state-space layers: the recurrence, where its state lives, and the block size that follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from platform_abc.components.attention import AttentionMetadata
from platform_abc.components.kv_cache import MambaSpec
from platform_abc.errors import NotSupported
from reference_model.mamba_layer import MambaLayer, StateBackend, run_both
from tests.reference_engine import ranks

Use = Callable[..., Any]
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [9], [20, 10, 5, 3, 1]]
KINDS = ["full_attention", "mamba", "full_attention"]


def worker_of(tmp_path: Path, kinds: list[str] | None = None, **args: Any) -> Any:
    folder = ranks.write_config(tmp_path / "model", layer_types=kinds or KINDS)
    return ranks.start({"model": folder, "dtype": "float32", **args})


def test_prefill_in_chunks_is_prefill_at_once(use_platform: Use, tmp_path: Path) -> None:
    """Also beside requests that decode, alone or in a batch."""
    use_platform()
    worker = worker_of(tmp_path)
    at_once = ranks.generate(worker, PROMPTS, 8)
    for chunk in (1, 2, 3):
        assert ranks.generate(worker, PROMPTS, 8, chunk=chunk) == at_once
    for prompt, tokens in zip(PROMPTS, at_once, strict=True):
        assert ranks.generate(worker, [prompt], 8) == [tokens]


def test_a_state_matters_and_a_new_request_starts_without_one(use_platform: Use, tmp_path: Path) -> None:
    """In a model of such layers alone, an earlier token changes what follows; what is left in a block does not."""
    use_platform()
    worker = worker_of(tmp_path, ["mamba"] * 3)
    first = ranks.generate(worker, [[7, 8, 3]], 6)
    assert ranks.generate(worker, [[8, 8, 3]], 6) != first
    assert ranks.generate(worker, [[7, 8, 3]], 6) == first


@pytest.mark.parametrize("asked", [None, 8, 24])
def test_blocks_grow_until_a_page_holds_a_state(use_platform: Use, tmp_path: Path, asked: int | None) -> None:
    """A state of 96 channels of 16 numbers against 128 bytes of keys and values a token: 48 tokens."""
    use_platform()
    worker = worker_of(tmp_path, block_size=asked)
    specs = worker.get_kv_cache_spec()
    state = specs["layers.1.mamba"]
    assert isinstance(state, MambaSpec)
    assert state.shapes == ((96, 16),)
    assert state.unpadded_page_size_bytes == 96 * 16 * 4 == 48 * 128
    assert worker.vllm_config.cache_config.block_size == 48
    assert {spec.page_size_bytes for spec in specs.values()} == {48 * 128}


def test_alignment_pads_a_state_that_fills_no_whole_block(use_platform: Use, tmp_path: Path) -> None:
    """Blocks of 20 tokens: three of them, and the state is padded to their bytes; the tokens stay the same."""
    use_platform()
    plain = ranks.generate(worker_of(tmp_path), PROMPTS, 5)
    (tmp_path / "again").mkdir()
    worker = worker_of(tmp_path / "again", block_size=20)
    cache = worker.vllm_config.cache_config
    assert (cache.block_size, cache.mamba_page_size_padded) == (60, 60 * 128)
    assert ranks.generate(worker, PROMPTS, 5) == plain


def test_states_by_blocks_of_tokens_are_found_again() -> None:
    """With a state for each few tokens, the one of a request's newest token goes on."""
    from platform_abc.components.attention import CommonAttentionMetadata
    from platform_abc.config import EngineConfig

    spec = MambaSpec(block_size=4, shapes=((2, 16),), dtypes=("float32",))
    builder = StateBackend.get_builder_cls()(spec, ["m"], EngineConfig(), torch.device("cpu"))
    batch = CommonAttentionMetadata(
        query_start_loc=torch.tensor([0, 3, 4, 9]),
        seq_lens=torch.tensor([3, 5, 9]),
        block_table=torch.tensor([[7, 0, 0], [1, 2, 0], [3, 4, 5]]),
        slot_mapping=torch.zeros(9, dtype=torch.int64),
        num_reqs=3,
        num_actual_tokens=9,
        max_query_len=5,
        max_seq_len=9,
    )
    made: Any = builder.build(0, batch)
    assert made.starts == [0, 3, 4, 9]
    assert made.fresh.tolist() == [True, False, False]
    assert made.read.tolist()[1:] == [1, 3]
    assert made.written.tolist() == [7, 2, 5]


def test_the_recurrence_is_the_one_written_out() -> None:
    """Fade, add, give out; token by token, for a batch with and without more than one token a request."""
    make = torch.Generator().manual_seed(0)
    for starts in ([0, 3, 5], [0, 1, 2]):
        tokens = starts[-1]
        state = torch.randn(2, 4, 16, generator=make)
        fades, new = torch.rand(tokens, 4, 1, generator=make), torch.randn(tokens, 4, 16, generator=make)
        given = torch.randn(tokens, 16, generator=make)
        expected, ends = [], state.double()
        for request in range(2):
            for token in range(starts[request], starts[request + 1]):
                ends[request] = ends[request] * fades[token] + new[token]
                expected.append(ends[request] @ given[token].double())
        seen = MambaLayer._recur(state, fades, new, given, starts)
        assert torch.allclose(seen.double(), torch.stack(expected), atol=1e-5)
        assert torch.allclose(state.double(), ends, atol=1e-5)


def test_what_stands_for_its_backend_says_what_it_is_not() -> None:
    """It is no attention backend, and says so where it is taken for one."""
    assert StateBackend.is_ssm()
    with pytest.raises(NotSupported, match="get_impl_cls"):
        StateBackend.get_impl_cls()
    with pytest.raises(NotSupported, match="get_kv_cache_shape"):
        StateBackend.get_kv_cache_shape(1, 1, 1, 1)


def test_on_the_host_both_run_in_order_whatever_the_platform_says(use_platform: Use) -> None:
    """The platform is asked, with no streams, as the host has none."""
    asked: list[tuple[object, object]] = []

    def wants(_cls: type, streams: object, metadata: object) -> bool:
        asked.append((streams, metadata))
        return True

    use_platform(enable_multi_stream_overlap=wants)
    order: list[int] = []
    metadata = AttentionMetadata()

    def kernel(number: int) -> torch.Tensor:
        order.append(number)
        return torch.tensor(number)

    both = run_both(lambda: kernel(1), lambda: kernel(2), metadata, torch.device("cpu"))
    assert [int(one) for one in both] == order == [1, 2]
    assert asked == [(None, metadata)]
