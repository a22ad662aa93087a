"""Facts about what layers store and how the cache is laid out."""

from __future__ import annotations

import pytest

from platform_abc.components.kv_cache import (
    AttentionSpec,
    DefaultKVCacheConfigBuilder,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    custom_kv_cache_specs,
    dtype_bytes,
    register_kv_cache_spec,
    stored_bytes,
)
from platform_abc.config import CacheConfig, EngineConfig


def attention(**changes: object) -> AttentionSpec:
    plain: dict[str, object] = {"block_size": 16, "num_kv_heads": 2, "head_size": 64, "dtype": "float16"}
    return AttentionSpec(**{**plain, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cache_dtype", "expected"),
    [
        ("auto", 16 * 2 * 2 * 64 * 2),
        ("bfloat16", 16 * 2 * 2 * 64 * 2),
        ("fp8", 16 * 2 * 2 * 64),
        ("int8_per_token_head", 16 * 2 * 2 * (64 + 4)),
        ("int4_per_token_head", 16 * 2 * 2 * (32 + 4)),
        ("nvfp4", 16 * 2 * 2 * 36),
    ],
)
def test_a_page_holds_keys_and_values_of_all_tokens_and_heads(cache_dtype: str, expected: int) -> None:
    """Bytes of a page by storage, scales included."""
    assert attention(cache_dtype=cache_dtype).page_size_bytes == expected


def test_a_latent_is_stored_once() -> None:
    """Latent attention keeps one vector a token."""
    spec = MLAAttentionSpec(block_size=16, num_kv_heads=1, head_size=576, dtype="bfloat16")
    assert spec.page_size_bytes == 16 * 576 * 2


def test_a_state_does_not_grow_with_the_block() -> None:
    """One block holds one state."""
    shapes = [(4, 8), (16,)]
    sizes = {
        MambaSpec(block_size=n, shapes=shapes, dtypes=["float32", "bfloat16"]).page_size_bytes
        for n in (1, 64)
    }
    assert sizes == {4 * 8 * 4 + 16 * 2}
    with pytest.raises(ValueError, match="2 shapes"):
        MambaSpec(block_size=1, shapes=shapes, dtypes=["float32"])


def test_padding_only_ever_adds() -> None:
    """A page may be padded up, never down."""
    needed = attention().page_size_bytes
    assert attention(page_size_padded=needed + 8).page_size_bytes == needed + 8
    with pytest.raises(ValueError, match="cannot be padded"):
        _ = attention(page_size_padded=needed - 1).page_size_bytes


def test_an_unknown_layout_or_dtype_is_refused_by_name() -> None:
    """A layout that only its backend knows has no size here."""
    with pytest.raises(ValueError, match=r"turboquant_4bit_nc.*customize_spec"):
        stored_bytes(64, "float16", "turboquant_4bit_nc")
    with pytest.raises(ValueError, match="float3"):
        dtype_bytes("float3")


def test_torch_dtypes_have_the_sizes_that_torch_says() -> None:
    """The table agrees with torch."""
    torch = pytest.importorskip("torch")
    for name in (
        "float64",
        "float32",
        "float16",
        "half",
        "bfloat16",
        "float8_e4m3fn",
        "int8",
        "uint8",
        "int64",
    ):
        assert dtype_bytes(getattr(torch, name)) == getattr(torch, name).itemsize


def test_layers_that_store_the_same_share_a_group_and_all_memory_is_used() -> None:
    """Blocks are as many as fit, counted over all layers."""
    full, window = attention(), attention(sliding_window=8)
    specs: dict[str, KVCacheSpec] = {"a": full, "b": window, "c": attention()}
    each = full.page_size_bytes
    built = DefaultKVCacheConfigBuilder(EngineConfig()).build(specs, 3 * each * 10 + each)
    assert built.num_blocks == 10
    assert [(list(g.layer_names), g.kv_cache_spec) for g in built.kv_cache_groups] == [
        (["a", "c"], full),
        (["b"], window),
    ]
    assert sum(tensor.size for tensor in built.kv_cache_tensors) == 3 * each * 10
    forced = EngineConfig(cache_config=CacheConfig(num_gpu_blocks_override=7))
    assert DefaultKVCacheConfigBuilder(forced).build(specs, 0).num_blocks == 7
    assert DefaultKVCacheConfigBuilder(EngineConfig()).build({}, 100).num_blocks == 0


def test_too_little_memory_is_an_error_that_says_what_to_raise() -> None:
    """Not even one block fits."""
    with pytest.raises(ValueError, match=r"gpu_memory_utilization"):
        DefaultKVCacheConfigBuilder(EngineConfig()).build({"a": attention()}, 10)


def test_a_request_needs_whole_blocks() -> None:
    """Tokens are rounded up to blocks."""
    assert [attention().blocks_for(n) for n in (0, 1, 16, 17)] == [0, 1, 1, 2]


def test_a_spec_may_be_registered_twice_but_not_replaced() -> None:
    """The hook that registers runs in several configs of one process."""

    class Own(AttentionSpec):
        pass

    register_kv_cache_spec("test-own", Own)
    register_kv_cache_spec("test-own", Own)
    assert custom_kv_cache_specs()["test-own"] is Own
    with pytest.raises(ValueError, match="is already"):
        register_kv_cache_spec("test-own", MambaSpec)
    with pytest.raises(ValueError, match="derives from KVCacheSpec"):
        register_kv_cache_spec("test-other", int)  # type: ignore[arg-type]
