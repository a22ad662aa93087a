"""Quantization: the engine's own method, and which one a name stands for, if the platform takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import torch

from platform_abc.components.quantization import (
    QuantizationMethod,
    get_quantization_method,
    register_quantization_config,
)
from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from platform_abc.platform import Platform

_LARGEST: Final = 127


def resolve_quantization(name: str, platform: Platform) -> type[QuantizationMethod]:
    """Return the registered method of a name that the platform accepts.

    Args:
        name: what the user asked for.
        platform: may refuse it.

    Raises:
        ValueError: no method has this name, or the platform does not list it, or its device is too old.
    """
    platform.verify_quantization(name)
    method = get_quantization_method(name)
    least = method.get_min_capability()
    if least >= 0 and not platform.has_device_capability(least):
        raise ValueError(
            f"quantization {name!r} needs a device of capability {least}, "
            f"but {platform.device_name} has {platform.get_device_capability()}"
        )
    return method


def make_method(config: EngineConfig, dtype: torch.dtype) -> QuantizationMethod | None:
    """Return the method that the configuration names, ready to use; None for no quantization.

    Args:
        config: the engine's configuration.
        dtype: of activations.

    Raises:
        ConfigError: the method does not compute in the dtype.
        ValueError: the name stands for no registered method.
    """
    quant = config.quant_config
    if quant is None:
        return None
    method = get_quantization_method(quant.quant_method)
    dtypes = method.get_supported_act_dtypes()
    if dtype not in dtypes:
        raise ConfigError(
            f"quant_config.quant_method = {quant.quant_method!r}: computes in "
            f"{', '.join(map(str, dtypes)) or 'no dtype'}, and the model's is {dtype}"
        )
    return method(quant.options)


@register_quantization_config("int8_weight_only")
class Int8WeightOnly(QuantizationMethod):
    """Weights as whole numbers of eight bits, with one scale for each output; activations stay as they are."""

    @classmethod
    def get_name(cls) -> str:
        """Return the name by which a user asks for the method."""
        return "int8_weight_only"

    @classmethod
    def get_supported_act_dtypes(cls) -> Sequence[torch.dtype]:
        """Return the dtypes that activations may have."""
        return (torch.float32, torch.bfloat16, torch.float16)

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Divide each row by its scale, so that its largest number becomes 127, and round.

        Args:
            weight: `[outputs, inputs]`.

        Returns:
            `weight`, int8 `[outputs, inputs]`, and `scale`, float32 `[outputs]`.
        """
        wide = weight.float()
        scale = wide.abs().amax(dim=1) / _LARGEST
        # A row of zeros is zero with any scale.
        rounded = torch.round(wide / scale.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1))
        return {"weight": rounded.clamp(-_LARGEST, _LARGEST).to(torch.int8), "scale": scale}

    def apply(
        self,
        stored: Mapping[str, torch.Tensor],
        x: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Multiply by the whole numbers, then each output by its scale.

        Args:
            stored: what `quantize` returned.
            x: `[tokens, inputs]`.
            bias: `[outputs]`, or None.
        """
        # Whole numbers up to 127 are exact in every dtype; a sum of them may be too large for float16.
        product = torch.nn.functional.linear(x.float(), stored["weight"].float()) * stored["scale"]
        return (product if bias is None else product + bias).to(x.dtype)
