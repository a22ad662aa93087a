"""Facts about the block size of the KV cache, against a search that tries every size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_abc.block_size import (
    align_heterogeneous,
    align_hybrid,
    attention_backends,
    check_aligned,
    choose_block_size,
    first_accepted,
    update_block_size,
)
from platform_abc.components.attention import MultipleOf
from platform_abc.components.kv_cache import AttentionSpec, KVCacheSpec, MambaSpec
from platform_abc.config import CacheDType, EngineConfig, get_current_config, snapshot
from tests.platform_abc.sized_backends import Backend, Layer, backend, config_of, state

SIZES = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64])
DECLARED = st.lists(st.one_of(SIZES, SIZES.map(MultipleOf)), max_size=3)


@st.composite
def backends(draw: Callable[..., Any]) -> Backend:
    declared = draw(DECLARED)
    return backend(
        "B",
        *declared,
        exact=bool(declared) and draw(st.booleans()),
        least=draw(st.sampled_from([None, None, None, 40, 130])),
        most=draw(st.sampled_from([None, None, None, 64, 200])),
    )


def every_size(made: Sequence[Backend], limit: int) -> int | None:
    """The brute-force search: the smallest size that all accept."""
    return next((n for n in range(1, limit + 1) if all(b.supports_block_size(n) for b in made)), None)


@settings(deadline=None, max_examples=120)
@given(st.lists(backends(), min_size=2, max_size=4))
def test_several_backends_get_the_default_or_the_smallest_common_size(made: list[Backend]) -> None:
    """The choice equals a search through every size, and fails where that finds nothing."""
    if all(b.supports_block_size(16) for b in made):
        assert choose_block_size(made) == 16
        return
    expected = every_size(made, 6720)
    if expected is None:
        with pytest.raises(ValueError, match="share no KV cache block size"):
            choose_block_size(made)
    else:
        assert choose_block_size(made) == expected


@settings(deadline=None, max_examples=100)
@given(DECLARED, st.sampled_from([8, 16, 32]))
def test_one_backend_gets_the_default_if_it_takes_it_else_its_smallest(
    declared: list[int | MultipleOf], default: int
) -> None:
    """A single backend decides, with the default as its first wish."""
    made = backend("B", *declared)
    sizes = [getattr(size, "base", size) for size in declared]
    accepts = not sizes or any(default % size == 0 for size in sizes)
    assert choose_block_size([made], default) == (default if accepts else min(sizes))


def test_one_backend_may_prefer_another_size_than_the_default() -> None:
    """A preference counts only while there is no second backend."""
    made = backend("A", MultipleOf(16), prefers=128)
    assert choose_block_size([made]) == 128
    assert choose_block_size([made, backend("B", MultipleOf(8))]) == 16


@pytest.mark.parametrize("prefers", [0, -16, True, 16.0, "16"])
def test_a_preference_that_is_no_size_is_refused_by_name(prefers: object) -> None:
    """The message names the backend and what it said."""
    with pytest.raises(ValueError, match="attention backend A prefers"):
        choose_block_size([backend("A", 16, prefers=prefers)])


def test_a_preference_that_the_backend_itself_refuses_is_an_error() -> None:
    """A backend that contradicts itself is named with its sizes."""
    with pytest.raises(ValueError, match=r"prefers a block size of 24 .*A: 16, multiple of 64"):
        choose_block_size([backend("A", 16, MultipleOf(64), prefers=24)])


def test_backends_without_a_common_size_are_named_with_their_sizes() -> None:
    """The error lists each backend and what it supports."""
    made = [backend("FIRST", 16, exact=True), backend("SECOND", 32, MultipleOf(24), exact=True)]
    with pytest.raises(ValueError) as caught:
        choose_block_size(made)
    assert str(caught.value) == (
        "the attention backends share no KV cache block size (FIRST: 16; SECOND: 32, multiple of 24)"
    )


@pytest.mark.parametrize("size", [0, -1, "16", True, 16.0, None])
def test_a_declared_size_that_is_none_is_refused_by_name(size: Any) -> None:
    """Zero, text and flags are no sizes, from one backend or among several."""
    for made in ([backend("BAD", size)], [backend("BAD", size), backend("OK", 24)]):
        with pytest.raises(ValueError, match=r"attention backend BAD: a supported block size is .*, got"):
            choose_block_size(made)
        with pytest.raises(ValueError, match="attention backend BAD"):
            align_hybrid(made, block_size=16, attention_bytes_per_token=1, state_page_bytes=1)
        with pytest.raises(ValueError, match="attention backend BAD"):
            check_aligned(made, 7)
    with pytest.raises(ValueError, match="whole number"):
        MultipleOf(size)


def test_no_backend_is_an_error_and_no_tokens_are_no_size() -> None:
    """There is nothing to choose for, and nothing to store."""
    with pytest.raises(ValueError, match="at least one"):
        choose_block_size([])
    for size in (0, -16):
        with pytest.raises(ValueError, match=f"{size} tokens.*ANY: any; A: 16"):
            check_aligned([backend("ANY"), backend("A", 16)], size)


@pytest.mark.parametrize(
    "hook",
    ["get_supported_kernel_block_sizes", "supports_block_size", "get_preferred_block_size", "get_name"],
)
def test_a_backend_that_raises_is_named(hook: str) -> None:
    """Whatever its methods raise becomes one error that names it and the cause."""

    def broken(*_: object) -> Any:
        raise RuntimeError("driver gone")

    made = type("Broken", (backend("BROKEN", 16),), {hook: staticmethod(broken)})
    other = backend("OK", 3 if hook == "get_name" else 24, exact=True)
    others = [] if hook == "get_preferred_block_size" else [other]
    with pytest.raises(ValueError) as caught:
        choose_block_size([made, *others])
    if hook == "get_name":
        assert str(caught.value).endswith("(Broken: 16; OK: 3)")
    else:
        assert str(caught.value).startswith("attention backend BROKEN cannot say")
        assert str(caught.value).endswith("RuntimeError: driver gone")
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_backend_that_stands_there_twice_counts_once() -> None:
    """Its preference still decides."""
    made = backend("A", MultipleOf(16), prefers=128)
    assert choose_block_size([made, made]) == 128


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([backend("A", MultipleOf(509)), backend("B", MultipleOf(521))], 509 * 521),
        ([backend("A", MultipleOf(10007)), backend("B", MultipleOf(10009))], 10007 * 10009),
        ([backend("A", 2, 60000, exact=True), backend("B", 3, 60000, exact=True)], 60000),
        ([backend("A", 7, 1 << 30, exact=True), backend("B", 1 << 30, exact=True)], 1 << 30),
        ([backend(str(n), *range(17 + n, 57 + n, 5)) for n in range(5)], 540),
        ([backend("A", *range(2, 90), exact=True), backend("B", *range(91, 180), exact=True)], None),
        ([backend("A", MultipleOf(999983)), backend("B", MultipleOf(1), most=64)], None),
        ([backend(str(n), *range(100 + n, 1000, 7), most=9) for n in range(7)], None),
    ],
)
def test_sizes_far_apart_are_found_or_refused_without_a_long_search(
    made: list[Backend], expected: int | None
) -> None:
    """Whether there is a common size or not, only few sizes are tried."""
    asked = 0

    def counted(plain: Backend) -> Backend:
        class Counting(plain):  # type: ignore[valid-type, misc]
            @classmethod
            def supports_block_size(cls, block_size: int | None) -> bool:
                nonlocal asked
                asked += 1
                return plain.supports_block_size(block_size)

        return Counting

    made = [counted(one) for one in made]
    if expected is None:
        with pytest.raises(ValueError, match="share no KV cache block size"):
            choose_block_size(made)
        assert first_accepted(made, 1, 100) == 100
    else:
        assert choose_block_size(made) == expected
    assert asked < 50_000


@settings(deadline=None, max_examples=120)
@given(
    st.lists(backends(), min_size=1, max_size=3),
    st.sampled_from([1, 8, 16, 24]),
    st.integers(1, 40),
    st.integers(1, 4000),
    st.booleans(),
)
def test_hybrid_alignment_is_the_smallest_multiple_that_holds_a_state(
    made: list[Backend], size: int, per_token: int, page: int, mla: bool
) -> None:
    """Brute force over every size: a multiple of the former, accepted by all, at least a state large."""
    aligned = align_hybrid(
        made, block_size=size, attention_bytes_per_token=per_token, state_page_bytes=page, use_mla=mla
    )
    step = math.lcm(size, 128) if mla else size
    fits = [
        n
        for n in range(step, 20000, step)
        if n * per_token >= page and all(b.supports_block_size(n) for b in made)
    ]
    if fits:
        assert aligned.block_size == fits[0]
        check_aligned(made, aligned.block_size)
    else:
        with pytest.raises(ValueError, match="is not supported by"):
            check_aligned(made, aligned.block_size)
    assert aligned.page_size == aligned.block_size * per_token >= page
    assert aligned.padded == (None if aligned.page_size == page else aligned.page_size)
    again = align_hybrid(
        made,
        block_size=aligned.block_size,
        attention_bytes_per_token=per_token,
        state_page_bytes=page,
        use_mla=mla,
    )
    assert not fits or again == aligned


@settings(deadline=None, max_examples=120)
@given(
    st.lists(backends(), min_size=1, max_size=3),
    st.sampled_from([1, 8, 16, 24]),
    st.integers(1, 40),
    st.integers(0, 60),
)
def test_mixed_dtypes_get_the_smallest_block_whose_page_holds_the_larger_one(
    made: list[Backend], size: int, primary: int, more: int
) -> None:
    """Brute force over every size: the quantized page holds the unquantized one's smallest block."""
    aligned = align_heterogeneous(
        made,
        block_size=size,
        primary_bytes_per_token=primary,
        skipped_bytes_per_token=primary + more,
    )
    if more == 0:
        assert aligned.block_size == size
        assert aligned.padded is None
        return
    kernels = [
        min([getattr(s, "base", s) for s in b.get_supported_kernel_block_sizes()] or [1]) for b in made
    ]
    needed = (primary + more) * math.lcm(*kernels)
    fits = [
        n
        for n in range(size, 30000, size)
        if n * primary >= needed and all(b.supports_block_size(n) for b in made)
    ]
    if fits:
        assert aligned.block_size == fits[0]
    assert aligned.padded == aligned.page_size == aligned.block_size * primary >= needed


def test_alignment_refuses_bytes_that_make_no_sense() -> None:
    """A quantized cache that is larger than the unquantized one, or nothing at all, is an error."""
    made = [backend("A")]
    with pytest.raises(ValueError, match="saves nothing"):
        align_heterogeneous(made, block_size=16, primary_bytes_per_token=4, skipped_bytes_per_token=2)
    with pytest.raises(ValueError, match="at least 1 byte"):
        align_heterogeneous(made, block_size=16, primary_bytes_per_token=0, skipped_bytes_per_token=2)
    with pytest.raises(ValueError, match="at least 1 byte"):
        align_hybrid(made, block_size=16, attention_bytes_per_token=0, state_page_bytes=1)
    same = align_hybrid(made, block_size=16, attention_bytes_per_token=4, state_page_bytes=0)
    assert (same.block_size, same.padded) == (16, None)


# --- the whole, on a config


def twice(config: EngineConfig) -> EngineConfig:
    """Update, and once more: the second time changes nothing."""
    update_block_size(config)
    config.validate()
    before = snapshot(config)
    update_block_size(config)
    assert snapshot(config) == before
    return config


def test_a_size_that_the_user_set_is_kept() -> None:
    """Neither the default nor a preference replaces it."""
    made = backend("A", MultipleOf(8), prefers=128)
    assert twice(config_of(Layer(made), block_size=24)).cache_config.block_size == 24
    assert twice(config_of(Layer(made))).cache_config.block_size == 128


def test_a_user_set_size_that_a_backend_refuses_is_an_error_that_says_so() -> None:
    """It is found here, not when the kernels run."""
    config = config_of(Layer(backend("A", MultipleOf(16))), block_size=24)
    with pytest.raises(
        ValueError, match=r"24 tokens, from cache_config.block_size as the user set it.*A: multiple"
    ):
        update_block_size(config)
    assert config.cache_config.block_size == 24


def test_without_model_or_layers_nothing_changes() -> None:
    """The hook bears a config without a model, and a model whose layers are not there yet."""
    empty = EngineConfig()
    update_block_size(empty)
    assert snapshot(empty) == snapshot(EngineConfig())
    config = config_of(object())
    before = snapshot(config)
    update_block_size(config)
    assert snapshot(config) == before


def test_only_distinct_attention_backends_count_and_state_space_ones_do_not() -> None:
    """Layer order, each once; layers of another kind are passed over."""
    first, second, ssm = backend("A", 16), backend("B", 48), backend("S", 7, ssm=True)
    config = config_of(Layer(ssm), Layer(first), object(), Layer(second), Layer(first))
    assert attention_backends(config) == [first, second]
    assert twice(config).cache_config.block_size == 48


def test_backends_may_read_the_current_config() -> None:
    """While sizes are asked for, the config is the current one."""
    seen: list[EngineConfig] = []
    made = backend("A", 16)

    class Asking(made):  # type: ignore[valid-type, misc]
        @staticmethod
        def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
            seen.append(get_current_config())
            return (16,)

    config = config_of(Layer(Asking))
    update_block_size(config)
    assert seen
    assert all(one is config for one in seen)


@settings(deadline=None, max_examples=80)
@given(
    st.integers(1, 20000),
    st.sampled_from([None, 8, 16, 48]),
    st.sampled_from([1, 8, 16]),
    st.sampled_from(["auto", "fp8", "nvfp4", "int8_per_token_head"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["none", "align"]),
)
def test_after_the_hook_every_page_has_one_size(
    state_bytes: int,
    user: int | None,
    kernel: int,
    cache_dtype: CacheDType,
    skip: bool,
    mla: bool,
    mode: str,
) -> None:
    """Hybrid, quantized and mixed: state, attention and skipped pages fit, the size is accepted, twice equals once."""
    made = backend("A", MultipleOf(kernel))
    config = config_of(
        Layer(made),
        Layer(backend("S", ssm=True), state(state_bytes)),
        block_size=user,
        cache_dtype=cache_dtype,
        mamba_cache_mode=mode,
        kv_cache_dtype_skip_layers=["layers.0"] if skip else [],
        model={"is_hybrid": True, "use_mla": mla, "head_size": 32},
    )
    if user is not None and user % kernel:
        user = math.lcm(user, kernel)
    twice(config)
    cache = config.cache_config
    heads = config.model_config.get_num_kv_heads(config.parallel_config)  # type: ignore[union-attr]

    def page(tokens: int, dtype: str) -> int:
        spec = AttentionSpec(
            block_size=tokens, num_kv_heads=heads, head_size=32, dtype="float16", cache_dtype=dtype
        )
        return spec.page_size_bytes // 2 if mla else spec.page_size_bytes

    attention = page(cache.block_size, cache_dtype)
    assert made.supports_block_size(cache.block_size)
    assert cache.block_size % (user or 1) == 0
    assert attention >= state_bytes
    assert (cache.mamba_page_size_padded or state_bytes) == attention
    if skip and cache.skip_page_size_padded is not None:
        assert cache.skip_page_size_padded == attention >= page(kernel, "auto")
    assert cache.mamba_block_size == (cache.block_size if mode == "align" else None)


def test_alignment_that_lands_on_a_refused_size_names_who_refuses() -> None:
    """A backend that takes only small blocks cannot hold a large state."""
    config = config_of(
        Layer(backend("SMALL", MultipleOf(16), most=64)),
        Layer(backend("S", ssm=True), state(1 << 20)),
        model={"is_hybrid": True},
    )
    with pytest.raises(ValueError, match=r"from alignment with a state of 1048576 bytes.*SMALL"):
        update_block_size(config)


def test_the_packing_of_the_backend_counts() -> None:
    """A backend that packs keys and values says how many bytes a token takes."""
    made = backend("A", MultipleOf(16))

    class Packing(made):  # type: ignore[valid-type, misc]
        @classmethod
        def customize_spec(cls, spec: KVCacheSpec) -> KVCacheSpec:
            return MambaSpec(block_size=1, shapes=[(3,)], dtypes=["uint8"])

    config = config_of(Layer(Packing), Layer(backend("S", ssm=True), state(300)), model={"is_hybrid": True})
    assert twice(config).cache_config.block_size == 112
    assert config.cache_config.mamba_page_size_padded == 336


def test_a_stale_padding_of_an_earlier_size_does_not_survive() -> None:
    """When pages are equal without padding, an old padding is taken back."""
    layer, ssm = Layer(backend("A", MultipleOf(16))), backend("S", ssm=True)
    config = config_of(layer, Layer(ssm, state(5000)), model={"is_hybrid": True})
    update_block_size(config)
    assert config.cache_config.mamba_page_size_padded is not None
    page = AttentionSpec(block_size=16, num_kv_heads=2, head_size=32, dtype="float16").page_size_bytes
    config.compilation_config.static_forward_context["layers.1"] = Layer(ssm, state(page))
    update_block_size(config)
    assert config.cache_config.block_size == 16
    assert config.cache_config.mamba_page_size_padded is None
