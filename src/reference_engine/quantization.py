"""Quantization: which method a name stands for, if the platform takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_abc.components.quantization import get_quantization_method

if TYPE_CHECKING:
    from platform_abc.components.quantization import QuantizationMethod
    from platform_abc.config import EngineConfig
    from platform_abc.platform import Platform


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


def make_method(config: EngineConfig) -> QuantizationMethod | None:
    """Return the method that the configuration names, ready to use; None for no quantization.

    Raises:
        ValueError: the name stands for no registered method.
    """
    quant = config.quant_config
    return None if quant is None else get_quantization_method(quant.quant_method)(quant.options)
