"""Quantization methods, and the registry that a platform extends in `pre_register_and_update`."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import torch

T = TypeVar("T", bound="type[QuantizationMethod]")


class QuantizationMethod(abc.ABC):
    """How the weights of linear layers are stored and multiplied.

    Args:
        options: what the model folder says of its quantization.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = dict(options or {})

    @classmethod
    @abc.abstractmethod
    def get_name(cls) -> str:
        """Return the name by which a user asks for the method."""

    @classmethod
    @abc.abstractmethod
    def get_supported_act_dtypes(cls) -> Sequence[torch.dtype]:
        """Return the dtypes that activations may have."""

    @classmethod
    def get_min_capability(cls) -> int:
        """Return the least device capability, both numbers in one; -1 for any device."""
        return -1

    @abc.abstractmethod
    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Turn a weight into what is stored.

        Args:
            weight: `[outputs, inputs]`, floating point.

        Returns:
            The stored tensors by name.

        Raises:
            ValueError: an override: the kernels take no weight of this shape.
        """

    @abc.abstractmethod
    def apply(
        self,
        stored: Mapping[str, torch.Tensor],
        x: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Multiply by a stored weight.

        Args:
            stored: what `quantize` returned.
            x: `[tokens, inputs]`.
            bias: `[outputs]`, or None.

        Returns:
            `[tokens, outputs]`, in the dtype of `x`.
        """


_methods: dict[str, type[QuantizationMethod]] = {}


def register_quantization_config(name: str) -> Callable[[T], T]:
    """Return a class decorator that registers a quantization method.

    The hook `pre_register_and_update` runs twice in the front end, so registering the same class
    again changes nothing.

    Args:
        name: what `--quantization` takes.

    Raises:
        ValueError: the name is empty or stands for another class, or the class is no method.
    """
    given_name = cast("object", name)  # a class, where the parentheses were forgotten
    if not isinstance(given_name, str) or not given_name.strip():
        raise ValueError(
            f"a quantization method needs a non-empty name, got {given_name!r}; "
            'write @register_quantization_config("name") above the class'
        )

    def register(method: T) -> T:
        given = cast("object", method)  # from a plugin, so its annotation proves nothing
        if not (isinstance(given, type) and issubclass(given, QuantizationMethod)):
            raise ValueError(f"a quantization method derives from QuantizationMethod, got {method!r}")
        known = _methods.get(name)
        # By name too: a class made inside the hook is a new object each time the hook runs.
        if known is not None and (known.__module__, known.__qualname__) != (
            method.__module__,
            method.__qualname__,
        ):
            raise ValueError(f"quantization {name!r} is already {known.__module__}.{known.__qualname__}")
        _methods[name] = method
        return method

    return register


def quantization_methods() -> Sequence[str]:
    """Return the registered names, sorted."""
    return tuple(sorted(_methods))


def get_quantization_method(name: str) -> type[QuantizationMethod]:
    """Return a registered method.

    Raises:
        ValueError: no method has this name; the message lists those that there are.
    """
    if name not in _methods:
        known = ", ".join(quantization_methods()) or "none is registered"
        raise ValueError(f"no quantization method {name!r} (there are: {known})")
    return _methods[name]


def unregister_quantization_config(name: str) -> None:
    """Forget a method; a name that is not registered is left alone."""
    _methods.pop(name, None)
