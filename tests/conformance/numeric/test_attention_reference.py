"""Facts about plain attention in float64 and the mistakes that are told by name."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from conformance.numeric.attention_cases import Ask, Case, Shape, Step, one_step, slots, stream, with_past  # noqa: E402
from conformance.numeric.attention_reference import READINGS, attend, references  # noqa: E402

pytestmark = pytest.mark.torch

SHAPE = Shape(4, 2, 16, 8, "float32")


def _last(case: Case, reading: int | None = None) -> torch.Tensor:
    step, stores = list(references(case))[-1]
    return (
        attend(case.shape, step, stores)
        if reading is None
        else attend(case.shape, step, stores, READINGS[reading])
    )


def test_attention_over_slots_is_torchs_attention() -> None:
    """What is read by slots equals torch's attention over the request's own tokens."""
    ask = Ask("a", (5, 1, 3), past=7, new=6)
    case = with_past("a chunk", SHAPE, Step((ask,)))
    query, key, value = (one.double().transpose(0, 1) for one in stream(SHAPE, ask))
    whole = torch.nn.functional.scaled_dot_product_attention(
        query[:, :13], key[:, :13], value[:, :13], is_causal=True, enable_gqa=True
    )
    assert torch.allclose(_last(case), whole.transpose(0, 1)[7:])


def test_a_window_counts_the_token_itself() -> None:
    """With a window of one token each token gets its own value."""
    import attrs

    case = one_step("a prefill", attrs.evolve(SHAPE, window=1), Ask("a", (1,), new=4))
    value = stream(SHAPE, Ask("a", (1,), new=4))[2][:4].double().repeat_interleave(2, dim=1)
    assert torch.allclose(_last(case), value)


@pytest.mark.parametrize("index", range(len(READINGS)), ids=[one.words[:40] for one in READINGS])
def test_every_mistake_shows_somewhere(index: int) -> None:
    """Each mistake gives something else than what is right in one problem at least."""
    import attrs

    last = Ask("b", (3, 6, 1), past=10, new=1)
    cases = [
        one_step("a prefill", SHAPE, Ask("a", (4, 2), new=12)),
        one_step("another scale", attrs.evolve(SHAPE, factor=0.3), Ask("a", (4, 2), new=12)),
        with_past("a decode step", SHAPE, Step((last,))),
        with_past("a chunk", SHAPE, Step((Ask("c", (5, 2, 7), past=3, new=9),))),
        one_step("a window", attrs.evolve(SHAPE, window=3), Ask("a", (4, 2), new=12)),
        Case("used again", SHAPE, (Step((Ask("a", (3, 6), new=12),)), Step((Ask("b", (3, 6), new=12),)))),
    ]
    assert any(not torch.allclose(_last(case), _last(case, index), atol=1e-3) for case in cases)


def test_a_shared_prefix_has_the_tokens_of_the_other_request() -> None:
    """A request that is like another one has its first tokens, and its own after them."""
    mine = stream(SHAPE, Ask("b", (1,), new=4, like="a", shared=2))[1]
    other, own = stream(SHAPE, Ask("a", (1,), new=4))[1], stream(SHAPE, Ask("b", (1,), new=4))[1]
    assert torch.equal(mine[:2], other[:2])
    assert torch.equal(mine[2:4], own[2:4])


def test_slots_follow_the_blocks() -> None:
    """The slot of a token is its block times the size, and its offset."""
    assert slots(Ask("a", (5, 1), past=6, new=4), 8) == [40, 41, 42, 43, 44, 45, 46, 47, 8, 9]
