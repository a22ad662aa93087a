"""Rotary position embedding: pairs of a head's elements are turned by an angle that grows with the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from platform_abc._config_checks import Check
from platform_abc.errors import ConfigError
from reference_model.model_config import read_value

_TYPES: Final = ("default", "linear", "llama3")
_POSITIVE: Final[Check[float]] = Check(
    lambda value: type(value) in (int, float) and 0 < float(value) < math.inf, "a positive number"
)


def rotary_table(head_size: int, rope: Mapping[str, Any], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cosines and sines of all places, as the core kernel takes them; float32 `[length, D / 2]`.

    Args:
        head_size: `D`, elements of a head, even.
        rope: `rope_theta`, `rope_type`, and what that type needs.
        length: places, from 0, of the longest sequence.

    Raises:
        ConfigError: the type is not known, or a parameter of it is missing.
    """
    angles = torch.arange(length, dtype=torch.float32)[:, None] * inverse_frequencies(head_size, rope)
    return angles.cos(), angles.sin()


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
    where = f"model_config.hf_config.rope_parameters of rope_type {rope['rope_type']!r}"
    return read_value(rope, name, _POSITIVE, where)
