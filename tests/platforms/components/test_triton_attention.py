"""Facts of the Triton attention backend that need no kernel, and of a worker that runs on every Triton component."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from platform_abc.components.attention import CommonAttentionMetadata
from platform_abc.config import AttentionSelectorConfig
from platform_abc.errors import NotSupported
from platforms import attention_choice
from platforms.components.triton_attention import (
    TritonAttentionBackend,
    TritonImpl,
    TritonMetadata,
    TritonMetadataBuilder,
)

ROOT = Path(__file__).parents[3]


def test_the_name_that_pickers_give_leads_here() -> None:
    """The dotted name and the user's name are this class's own."""
    assert ".".join(TritonAttentionBackend.full_cls_name()) == attention_choice.TRITON_ATTN
    assert attention_choice.TRITON_BACKENDS[TritonAttentionBackend.get_name()] == attention_choice.TRITON_ATTN
    assert TritonAttentionBackend.get_impl_cls() is TritonImpl
    assert TritonAttentionBackend.get_builder_cls() is TritonMetadataBuilder
    assert TritonMetadata.replayable


def selector(**fields: Any) -> AttentionSelectorConfig:
    return AttentionSelectorConfig(
        **{"head_size": 80, "dtype": torch.bfloat16, "kv_cache_dtype": "auto", "block_size": 7, **fields}
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"dtype": torch.float32},
        {"dtype": torch.float16, "kv_cache_dtype": "bfloat16"},
        {"block_size": 1},
        {"block_size": None},
        {"head_size": 1},
        {"head_size": 256},
        {"has_sliding_window": True},
        {"use_non_causal": True},
    ],
)
def test_what_the_kernel_computes_is_served(fields: dict[str, Any]) -> None:
    """Each dtype, any block size, odd heads, windows, both directions."""
    assert TritonAttentionBackend.validate_configuration(selector(**fields)) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"head_size": 257}, "head size 257"),
        ({"dtype": torch.float64}, "dtype torch.float64"),
        ({"kv_cache_dtype": "fp8"}, "KV cache dtype fp8"),
        ({"use_mla": True}, "latent attention"),
        ({"has_sink": True}, "attention sinks"),
        ({"use_dcp": True}, "decode context parallelism"),
        ({"attn_type": "encoder"}, "attention type encoder"),
    ],
)
def test_what_it_cannot_do_is_a_reason(fields: dict[str, Any], reason: str) -> None:
    """Said in words, before a layer is built."""
    assert reason in " ".join(TritonAttentionBackend.validate_configuration(selector(**fields)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alibi_slopes": [1.0] * 4}, NotSupported, "TRITON_ATTN does not support alibi_slopes"),
        ({"logits_soft_cap": 30.0}, NotSupported, "logits_soft_cap"),
        ({"attn_type": "encoder_only"}, NotSupported, "encoder_only"),
        ({"kv_cache_dtype": "fp8"}, NotSupported, "fp8"),
        ({"sliding_window": 0}, ValueError, "got 0"),
        ({"num_kv_heads": 3}, ValueError, "evenly"),
    ],
)
def test_arguments_without_a_place_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Nothing that a model needs is ignored."""
    with pytest.raises(error, match=message):
        TritonImpl(4, 16, 1.0, **options)


def test_a_batch_that_contradicts_itself_is_named_where_reading_it_is_free() -> None:
    """On the host its numbers are at hand; on a device they would have to be waited for."""
    builder = TritonMetadataBuilder(SimpleNamespace(block_size=4), ["a"], None, torch.device("cpu"))  # type: ignore[arg-type]
    batch = CommonAttentionMetadata(
        query_start_loc=torch.tensor([0, 1]),
        seq_lens=torch.tensor([9]),
        block_table=torch.zeros(1, 2, dtype=torch.int32),
        slot_mapping=torch.tensor([8, -1]),
        num_reqs=1,
        num_actual_tokens=1,
        max_query_len=1,
        max_seq_len=9,
    )
    with pytest.raises(ValueError, match="request 0 of the batch has 9 tokens, but .* holds 8"):
        builder.build(0, batch)
    batch.seq_lens = torch.tensor([8])
    assert builder.build(0, batch).num_tokens == 1


_GENERATE = """
import platforms
from platforms import attention_choice
from platforms.cpu import CpuPlatform
from platforms.triton_state import TritonKind
from tests.platforms.components import test_worker as worker


class OnTriton(CpuPlatform):
    _attn_backends = attention_choice.TRITON_BACKENDS

    @classmethod
    def _triton_kind(cls) -> TritonKind:
        return "cuda"


found = []
for platform in (CpuPlatform(), OnTriton()):
    vars(platforms)["current_platform"] = platform
    started = worker.started(worker.config())
    print({type(layer.impl).__name__ for layer in started.model.layers().values()})
    found.append(worker.generate(started, worker.PROMPTS, 5, chunk=3))
print(found[0] == found[1], all(found[0].values()))
"""


@pytest.mark.deep
def test_a_worker_generates_the_same_tokens_on_the_kernels() -> None:
    """Prefill in chunks and decode, batched, with the interpreted kernels in place of torch's attention."""
    pytest.importorskip("triton")
    pytest.importorskip("numpy")
    child = subprocess.run(
        [sys.executable, "-c", _GENERATE],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines() == ["{'SdpaImpl'}", "{'TritonImpl'}", "True True"]
