"""Facts of `platforms.components.attention`, the backend as an engine uses it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from platform_abc.components.attention import CommonAttentionMetadata
from platform_abc.components.kv_cache import AttentionSpec
from platform_abc.config import AttentionSelectorConfig, EngineConfig
from platform_abc.errors import NotSupported
from platform_abc.qualname import resolve_obj_by_qualname
from platforms import attention_choice
from platforms.components.attention import SdpaImpl, SdpaMetadataBuilder, TorchSdpaBackend

LAYER: Any = SimpleNamespace(layer_name="layers.0.attn")
BLOCK, HEADS, KV_HEADS, SIZE = 4, 4, 2, 8


def builder() -> SdpaMetadataBuilder:
    spec = AttentionSpec(block_size=BLOCK, num_kv_heads=KV_HEADS, head_size=SIZE, dtype="float32")
    return SdpaMetadataBuilder(spec, [LAYER.layer_name], EngineConfig(), torch.device("cpu"))


def batch(lengths: list[tuple[int, int]], tables: list[list[int]], pad: int = 0) -> CommonAttentionMetadata:
    """`lengths` holds `(new, total)`; slots of `pad` more tokens are -1."""
    starts = [0]
    slots: list[int] = []
    for (new, total), table in zip(lengths, tables, strict=True):
        starts.append(starts[-1] + new)
        slots += [table[i // BLOCK] * BLOCK + i % BLOCK for i in range(total - new, total)]
    return CommonAttentionMetadata(
        query_start_loc=torch.tensor(starts, dtype=torch.int32),
        seq_lens=torch.tensor([total for _, total in lengths], dtype=torch.int32),
        block_table=torch.tensor(tables, dtype=torch.int32),
        slot_mapping=torch.tensor(slots + [-1] * pad),
        num_reqs=len(lengths),
        num_actual_tokens=starts[-1],
        max_query_len=max(new for new, _ in lengths),
        max_seq_len=max(total for _, total in lengths),
    )


def test_the_dotted_name_leads_to_the_class() -> None:
    """What the pickers name is this backend."""
    assert resolve_obj_by_qualname(attention_choice.TORCH_SDPA) is TorchSdpaBackend


def test_decoding_token_by_token_equals_prefill() -> None:
    """The last tokens come out the same whether they were prefilled or decoded one after the other."""
    torch.manual_seed(0)
    impl = SdpaImpl(HEADS, SIZE, SIZE**-0.5, KV_HEADS)
    shape = TorchSdpaBackend.get_kv_cache_shape(6, BLOCK, KV_HEADS, SIZE)
    query = torch.randn(9, HEADS, SIZE)
    key, value = torch.randn(9, KV_HEADS, SIZE), torch.randn(9, KV_HEADS, SIZE)
    table = [[5, 0, 3]]
    whole = impl.forward(
        LAYER, query, key, value, torch.zeros(shape), builder().build(0, batch([(9, 9)], table))
    )
    cache = torch.zeros(shape)
    steps = [
        impl.forward(
            LAYER,
            query[i : i + 1],
            key[i : i + 1],
            value[i : i + 1],
            cache,
            builder().build(0, batch([(1, i + 1)], table)),
        )
        for i in range(9)
    ]
    torch.testing.assert_close(torch.cat(steps), whole)


def test_the_given_output_is_filled_and_padding_is_zero() -> None:
    """The result is the buffer itself, and rows beyond the step's tokens are zero."""
    impl = SdpaImpl(HEADS, SIZE, 1.0, KV_HEADS)
    output = torch.full((5, HEADS, SIZE), float("nan"))
    cache = torch.zeros(TorchSdpaBackend.get_kv_cache_shape(2, BLOCK, KV_HEADS, SIZE))
    result = impl.forward(
        LAYER,
        torch.randn(5, HEADS, SIZE),
        torch.randn(5, KV_HEADS, SIZE),
        torch.randn(5, KV_HEADS, SIZE),
        cache,
        builder().build(0, batch([(3, 3)], [[1]], pad=2)),
        output,
    )
    assert result is output
    assert not result[:3].isnan().any()
    assert torch.equal(result[3:], torch.zeros(2, HEADS, SIZE))


def test_a_profiling_run_needs_no_metadata() -> None:
    """Without metadata the result is zero and the cache is not touched."""
    impl = SdpaImpl(HEADS, SIZE, 1.0)
    query = torch.randn(2, HEADS, SIZE)
    result = impl.forward(LAYER, query, query, query, torch.empty(0), None)
    assert torch.equal(result, torch.zeros_like(query))


@pytest.mark.parametrize(
    ("lengths", "starts", "message"),
    [
        ([(2, 13)], None, "holds 12"),
        ([(3, 2)], None, "3 new tokens, but 2 in all"),
        ([(2, 4)], [3, 1], "ends before it starts"),
    ],
)
def test_a_batch_that_contradicts_itself_is_named(
    lengths: list[tuple[int, int]], starts: list[int] | None, message: str
) -> None:
    """Reading outside of a request's blocks is refused before any kernel runs."""
    made = batch([(1, 1)], [[0, 1, 2]])
    made.query_start_loc = torch.tensor(starts or [0, lengths[0][0]], dtype=torch.int32)
    made.seq_lens = torch.tensor([lengths[0][1]], dtype=torch.int32)
    with pytest.raises(ValueError, match=message):
        builder().build(0, made)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alibi_slopes": [1.0] * HEADS}, "alibi_slopes"),
        ({"logits_soft_cap": 30.0}, "logits_soft_cap"),
        ({"attn_type": "encoder_only"}, "encoder_only"),
        ({"kv_cache_dtype": "fp8"}, "fp8"),
    ],
)
def test_what_torch_has_no_place_for_is_declared(options: dict[str, Any], message: str) -> None:
    """Biases, caps, other kinds and quantized caches are `NotSupported`, not ignored."""
    with pytest.raises(NotSupported, match=message):
        SdpaImpl(HEADS, SIZE, 1.0, KV_HEADS, **options)


@pytest.mark.parametrize(
    ("options", "message"), [({"sliding_window": 0}, "got 0"), ({"num_kv_heads": 3}, "evenly")]
)
def test_nonsense_is_a_value_error(options: dict[str, Any], message: str) -> None:
    """A window of nothing, and heads that cannot be shared."""
    with pytest.raises(ValueError, match=message):
        SdpaImpl(HEADS, SIZE, 1.0, **options)


def selector(**fields: Any) -> AttentionSelectorConfig:
    return AttentionSelectorConfig(
        **{"head_size": 32, "dtype": torch.float32, "kv_cache_dtype": "auto", "block_size": 16, **fields}
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("block_size", [None, 1, 7, 16, 128])
def test_a_plain_decoder_layer_is_served(dtype: torch.dtype, block_size: int | None) -> None:
    """In each dtype, with any block size."""
    assert TorchSdpaBackend.validate_configuration(selector(dtype=dtype, block_size=block_size)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"use_mla": True},
        {"use_sparse": True},
        {"has_sink": True},
        {"use_mm_prefix": True},
        {"dtype": torch.float64},
        {"kv_cache_dtype": "fp8"},
        {"attn_type": "encoder"},
        {"use_batch_invariant": True},
        {"use_dcp": True},
    ],
)
def test_the_backend_and_the_pickers_refuse_the_same(fields: dict[str, Any]) -> None:
    """The rule that pickers apply without importing torch is the backend's own."""
    assert TorchSdpaBackend.validate_configuration(selector(**fields))
    assert attention_choice.refusals(selector(**fields))
