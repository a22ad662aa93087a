"""Facts about rotary position embedding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from platform_abc.errors import ConfigError
from platforms.components.torch_kernels import rotary_embedding
from reference_model.rotary import inverse_frequencies, rotary_table

DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA3 = {
    **DEFAULT,
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_depends_on_the_distance_alone(dtype: torch.dtype) -> None:
    """Pairs keep their length, and a query meets a key by how far apart they are."""
    cos, sin = rotary_table(8, DEFAULT, 100)
    make = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 1, 8, generator=make).to(dtype).expand(3, 2, 8) for _ in range(2))
    turned = rotary_embedding(query, cos[[5, 40, 99]], sin[[5, 40, 99]])
    other = rotary_embedding(key, cos[[2, 37, 96]], sin[[2, 37, 96]])
    assert turned.dtype is dtype
    products = (turned.float() * other.float()).sum(-1)
    tolerance = 1e-5 if dtype is torch.float32 else 0.1
    assert torch.allclose(products, products[:1].expand_as(products), atol=tolerance)
    assert torch.allclose(turned.float().norm(dim=-1), query.float().norm(dim=-1), rtol=2e-2)


@pytest.mark.parametrize(
    "rope",
    [DEFAULT, {**DEFAULT, "rope_type": "linear", "factor": 4.0}, LLAMA3],
    ids=["default", "linear", "llama3"],
)
def test_rates_are_those_of_transformers(rope: dict[str, Any]) -> None:
    """Unscaled, stretched evenly, and stretched where waves are long."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=2, rope_parameters=rope, max_position_embeddings=512
    )
    expected = LlamaRotaryEmbedding(config).inv_freq
    assert torch.allclose(inverse_frequencies(32, rope), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("rope", "text"),
    [
        ({**DEFAULT, "rope_type": "yarn"}, "expected a rope_type of default, linear, llama3"),
        ({**DEFAULT, "partial_rotary_factor": 0.5}, "over whole heads"),
        ({**DEFAULT, "rope_theta": 0}, "rope_theta = 0: expected a positive number"),
        ({**DEFAULT, "rope_theta": 10**400}, "rope_theta = 10+: expected a positive number"),
        ({**DEFAULT, "rope_type": "linear"}, "factor = None"),
        ({**LLAMA3, "low_freq_factor": 4.0}, "low_freq_factor = 4.0: expected less than"),
    ],
)
def test_parameters_that_are_not_known_are_refused(rope: dict[str, Any], text: str) -> None:
    """By name."""
    with pytest.raises(ConfigError, match=text):
        inverse_frequencies(8, rope)
