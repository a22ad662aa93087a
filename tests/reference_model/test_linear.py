"""Facts about linear layers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from reference_model.linear import Build, Head, Linear, Part, Vocabulary, multiply
from reference_model.parallel import GroupCoordinator
from reference_model.quantization import Int8WeightOnly
from reference_model.weights import Weights, drawn
from tests.reference_engine.components import Rounded

Use = Callable[..., Any]


@pytest.fixture
def weights(use_platform: Use) -> Weights:
    use_platform()
    return Weights({}, 0, torch.device("cpu"), torch.float32)


def build_of(weights: Weights, method: Any = None) -> Build:
    """What a linear layer asks of what it is built from."""
    nothing: Any = None
    return Build(nothing, nothing, nothing, weights, method, GroupCoordinator())


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 8, 9])
@pytest.mark.parametrize("sizes", [(40, 16), (16, 40)])
def test_products_are_right_however_few_rows_there_are(rows: int, sizes: tuple[int, int]) -> None:
    """Either way round, with and without a bias; the answer lies in memory as it is."""
    weight, bias = torch.randn(sizes), torch.randn(sizes[0])
    x = torch.randn(sizes[1], rows).t()
    expected = x.double() @ weight.double().t()
    assert torch.allclose(multiply(x, weight).double(), expected, atol=1e-4)
    found = multiply(x, weight, bias)
    assert torch.allclose(found.double(), expected + bias, atol=1e-4)
    assert found.is_contiguous()


def test_projections_side_by_side_are_each_their_own(weights: Weights) -> None:
    """One product, the outputs in the order of the parts, biases too."""
    parts = [Part(name="a", outputs=3, inputs=8), Part(name="b", outputs=5, inputs=8)]
    made = Linear(build_of(weights), parts, bias=True)
    x = torch.randn(4, 8)
    for part, columns in zip(parts, made(x).split([3, 5], dim=-1), strict=True):
        own = weights.take(f"{part.name}.weight", (part.outputs, 8))
        bias = weights.take(f"{part.name}.bias", (part.outputs,))
        assert torch.allclose(columns, x @ own.t() + bias, atol=1e-5)


@pytest.mark.parametrize(("method", "error"), [(Rounded(), 8 * 4 / 16), (Int8WeightOnly(), 0.1)])
def test_a_quantized_layer_multiplies_what_was_stored(weights: Weights, method: Any, error: float) -> None:
    """The method's own product, close to the plain one."""
    parts, x = [Part(name="a", outputs=4, inputs=8)], torch.randn(3, 8)
    plain = Linear(build_of(weights), parts, bias=True)(x)
    quantized = Linear(build_of(weights, method), parts, bias=True)(x)
    assert not torch.equal(plain, quantized)
    assert torch.allclose(plain, quantized, atol=error)


def test_a_rank_may_hold_no_token_at_all(weights: Weights) -> None:
    """Five tokens among four ranks are two, two, one and none."""
    whole = drawn(weights.seed, "lm_head.weight", (5, 8))
    for rank, held in enumerate([2, 2, 1, 0]):
        group: Any = SimpleNamespace(world_size=4, rank=rank)
        own = Vocabulary(5, 8, group)
        rows = own.load(weights, "lm_head.weight")
        assert (own.held, rows.shape) == (held, (2, 8))
        assert torch.equal(rows[:held], whole[own.start : own.start + held])


def test_tokens_that_there_are_not_are_never_the_likeliest(use_platform: Use) -> None:
    """Seven tokens among two ranks: the last column is the platform's minus infinity."""

    class Two:
        world_size, rank, gathers_everywhere = 2, 1, True

        def gather_logits(self, logits: torch.Tensor) -> torch.Tensor:
            return logits

    use_platform(get_infinity_values=lambda _cls, dtype: (-7e7, 7e7))
    group: Any = Two()
    own = Vocabulary(7, 8, group)
    assert (own.share, own.start, own.held) == (4, 4, 3)
    logits = Head(torch.randn(4, 8), own)(torch.randn(2, 8))
    assert logits[:, 3].tolist() == [-7e7, -7e7]
    assert int(logits.argmax()) % 4 < 3
