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


def test_scores_are_capped_and_biased_as_a_mask_of_torchs_says() -> None:
    """A cap and slopes give what torch's softmax gives of such scores, by each token's distance."""
    import attrs

    ask, slopes = Ask("a", (4, 2), new=9), (0.5, 0.25, 0.125, 0.1)
    shape = attrs.evolve(SHAPE, cap=0.7, slopes=slopes)
    query, key, value = (one[:9].double() for one in stream(shape, ask))
    key, value = (one.repeat_interleave(2, dim=1) for one in (key, value))
    scores = torch.einsum("qhd,khd->hqk", query, key) * shape.scale
    here, there = torch.arange(9).unsqueeze(1), torch.arange(9).unsqueeze(0)
    scores = 0.7 * torch.tanh(scores / 0.7) + torch.tensor(slopes).double()[:, None, None] * (there - here)
    weights = scores.masked_fill(there > here, -torch.inf).softmax(-1)
    assert torch.allclose(
        _last(one_step("a prefill", shape, ask)), torch.einsum("hqk,khd->qhd", weights, value)
    )


def test_a_step_that_is_not_causal_has_no_mask() -> None:
    """All tokens of such a step see all tokens of their request."""
    ask = Ask("a", (4, 2), new=9)
    query, key, value = (one[:9].double().transpose(0, 1) for one in stream(SHAPE, ask))
    whole = torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    case = Case("a step", SHAPE, (Step((ask,), causal=False),))
    assert torch.allclose(_last(case), whole.transpose(0, 1))


def test_lifted_values_lift_the_result() -> None:
    """What is added to all values is added to each result."""
    import attrs

    ask = Ask("a", (4, 2), new=9)
    plain, lifted = (one_step("a prefill", attrs.evolve(SHAPE, lift=lift), ask) for lift in (0.0, 2.0))
    assert torch.allclose(_last(lifted), _last(plain) + 2, atol=1e-5)


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
        one_step("a cap", attrs.evolve(SHAPE, cap=0.5), Ask("a", (4, 2), new=12)),
        one_step("biases", attrs.evolve(SHAPE, slopes=(0.5, 0.3, 0.2, 0.1)), Ask("a", (4, 2), new=12)),
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
