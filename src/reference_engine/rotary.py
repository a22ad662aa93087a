"""Rotary position embedding: pairs of a head's elements are turned by an angle that grows with the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from platform_abc.errors import ConfigError

_TYPES = ("default", "linear", "llama3")


class Rotary(torch.nn.Module):
    """The angles of all places, as the factors of one multiplication and one addition.

    Args:
        head_size: elements of a head, even.
        rope: `rope_theta`, `rope_type`, and what that type needs.
        length: places, from 0, of the longest sequence.
        dtype: of activations.
        device: where they are.

    Raises:
        ConfigError: the type is not known, or a parameter of it is missing.
    """

    def __init__(
        self, head_size: int, rope: Mapping[str, Any], length: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        self.reach = head_size // 2
        rates = inverse_frequencies(head_size, rope)
        angles = torch.arange(length, dtype=torch.float32)[:, None] * rates
        cos, sin = angles.cos(), angles.sin()
        # The second half of a head meets the first with a plus, the first meets the second with a minus.
        wide = torch.float32 if dtype != torch.float64 else dtype
        self.cos = torch.cat((cos, cos), dim=-1).to(device, wide)
        self.sin = torch.cat((-sin, sin), dim=-1).to(device, wide)

    def factors(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the factors of a step's tokens, which serve all layers; two of `[T, 1, D]`.

        Args:
            positions: int64 `[T]`.
        """
        return self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)

    def forward(self, states: torch.Tensor, factors: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Turn heads.

        Args:
            states: `[T, heads, D]`.
            factors: of the step.
        """
        cos, sin = factors
        swapped = states.roll(self.reach, -1)
        return torch.addcmul(states * cos, swapped, sin).to(states.dtype)


def inverse_frequencies(head_size: int, rope: Mapping[str, Any]) -> torch.Tensor:
    """Return the angle of one place for each pair of elements, in radians, float32 `[D / 2]`.

    Args:
        head_size: elements of a head.
        rope: `rope_theta`, `rope_type`, and what that type needs.

    Raises:
        ConfigError: the type is not known, or a parameter of it is missing.
    """
    kind = rope["rope_type"]
    if kind not in _TYPES or rope.get("partial_rotary_factor", 1) != 1:
        raise ConfigError(
            f"model_config.hf_config.rope_parameters = {dict(rope)}: expected a rope_type of "
            f"{', '.join(_TYPES)} over whole heads"
        )
    powers = torch.arange(0, head_size, 2, dtype=torch.int64).float() / head_size
    rates = 1.0 / (_parameter(rope, "rope_theta") ** powers)
    if kind == "linear":
        return rates / _parameter(rope, "factor")
    return _stretched(rates, rope) if kind == "llama3" else rates


def _stretched(rates: torch.Tensor, rope: Mapping[str, Any]) -> torch.Tensor:
    """Slow down the waves that are long against the trained length, and blend into those that are not."""
    factor = _parameter(rope, "factor")
    low, high = _parameter(rope, "low_freq_factor"), _parameter(rope, "high_freq_factor")
    if not low < high:
        raise ConfigError(
            f"model_config.hf_config.rope_parameters: low_freq_factor = {low}: expected less than "
            f"high_freq_factor = {high}"
        )
    waves_per_length = _parameter(rope, "original_max_position_embeddings") * rates / (2 * math.pi)
    # 0 where a wave is longer than the low bound allows, 1 where it is shorter than the high bound.
    kept = ((waves_per_length - low) / (high - low)).clamp(0, 1)
    return rates * (kept + (1 - kept) / factor)


def _parameter(rope: Mapping[str, Any], name: str) -> float:
    value = rope.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise ConfigError(
            f"model_config.hf_config.rope_parameters.{name} = {value!r}: expected a positive number for "
            f"rope_type {rope['rope_type']!r}"
        )
    return float(value)
