"""Platforms whose kernels and quantised layers compute something else, and some whose do it in another way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch

from platform_abc.components.kernels import IR_OPS, KERNELS
from platform_abc.components.quantization import QuantizationMethod, register_quantization_config
from tests.mutants.good import Good

Norm = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


def norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows, in another order of operations than the engine's."""
    wide = x.float()
    root = torch.sqrt(wide.square().sum(-1, keepdim=True) / wide.shape[-1] + epsilon)
    return (wide / root * weight.float()).to(x.dtype)


def norm_without_epsilon(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows; the epsilon is left out."""
    return norm(x, weight, 0.0)


def norm_offset(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows by a weight that is stored less 1, as another family of models does."""
    return norm(x, weight + 1, epsilon)


def norm_in_place(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows where they are."""
    return x.copy_(norm(x, weight, epsilon))


def norm_of_128(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows by the mean of their first multiple of 128 elements."""
    width = max(x.shape[-1] // 128 * 128, min(x.shape[-1], 128))
    wide = x.float()
    root = torch.rsqrt(wide[..., :width].square().mean(-1, keepdim=True) + epsilon)
    return (wide * root * weight.float()).to(x.dtype)


class Normed(Good):
    """Registers an implementation of an op, which is right."""

    _norm: ClassVar[Norm] = staticmethod(norm)

    @classmethod
    def import_ir_kernels(cls) -> None:
        """Register it, where it is not there yet."""
        import reference_model.ir_ops  # noqa: F401  what has the op

        op = IR_OPS.ops["rms_norm"]
        if "chip" not in op.impls:
            op.register_impl("chip", supports=cls._supports)(cls._norm)

    @staticmethod
    def _supports(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> bool:
        return True


class NormedSometimes(Normed):
    """Registers an implementation for widths that are multiples of 128, and says so."""

    _norm: ClassVar[Norm] = staticmethod(norm_of_128)

    @staticmethod
    def _supports(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> bool:
        return x.shape[-1] % 128 == 0


class NormedByHalf(Normed):
    """Registers an implementation for widths that are multiples of 128, and says nothing of it."""

    _norm: ClassVar[Norm] = staticmethod(norm_of_128)


class NoEpsilon(Normed):
    """Registers an implementation of an op without its epsilon."""

    _norm: ClassVar[Norm] = staticmethod(norm_without_epsilon)


class Offset(Normed):
    """Registers an implementation of an op that adds 1 to the weight."""

    _norm: ClassVar[Norm] = staticmethod(norm_offset)


class InPlace(Normed):
    """Registers an implementation of an op that changes its input."""

    _norm: ClassVar[Norm] = staticmethod(norm_in_place)


def _core(name: str) -> None:
    """Have a core kernel of the engine's, where this engine has none of the name."""
    if name not in KERNELS.names():
        core: Callable[..., Any] = {"silu_and_mul": _silu_core, "write_cache": _write_core}[name]
        KERNELS.core(name)(core)


def _silu_core(x: torch.Tensor) -> torch.Tensor:
    return silu(x)


def _write_core(
    key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    write(key, value, cache, slot_mapping)


def silu(x: torch.Tensor) -> torch.Tensor:
    """Gate one half by the other."""
    first, second = x.chunk(2, -1)
    return (first.float() * torch.sigmoid(first.float()) * second.float()).to(x.dtype)


def silu_swapped(x: torch.Tensor) -> torch.Tensor:
    """Gate the first half by the second."""
    return silu(torch.cat(x.chunk(2, -1)[::-1], dim=-1))


def write(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor) -> None:
    """Store row by row."""
    for row, slot in enumerate(slot_mapping.tolist()):  # type: ignore[no-untyped-call]
        if slot >= 0:
            block, offset = divmod(slot, cache.shape[2])
            cache[0, block, offset], cache[1, block, offset] = key[row], value[row]


def write_padding(
    key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Store every row."""
    for half, new in zip(cache, (key, value), strict=True):
        half.view(-1, *half.shape[2:])[slot_mapping] = new


class Overrides(Good):
    """Overrides core kernels, rightly."""

    _silu: ClassVar[Callable[[torch.Tensor], torch.Tensor]] = staticmethod(silu)
    _write: ClassVar[Callable[..., None]] = staticmethod(write)

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """Register them."""
        for name, function in (("silu_and_mul", cls._silu), ("write_cache", cls._write)):
            _core(name)
            if name not in KERNELS.overridden():
                KERNELS.override(name, function)


class SiluSwapped(Overrides):
    """Overrides a core kernel by one that gates the other half."""

    _silu: ClassVar[Callable[[torch.Tensor], torch.Tensor]] = staticmethod(silu_swapped)


class WritesPadding(Overrides):
    """Overrides a core kernel by one that stores padding."""

    _write: ClassVar[Callable[..., None]] = staticmethod(write_padding)


class Eighths(QuantizationMethod):
    """Eight bits a weight, one scale a row."""

    @classmethod
    def get_name(cls) -> str:
        """Return the name."""
        return "chip_w8"

    @classmethod
    def get_supported_act_dtypes(cls) -> Sequence[torch.dtype]:
        """Return the dtypes of activations."""
        return (torch.float32, torch.bfloat16)

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Return whole numbers, and the scale of each row."""
        scale = weight.float().abs().amax(1).clamp(min=1e-9) / 127
        return {"q": (weight.float() / scale[:, None]).round().to(torch.int8), "scale": scale}

    def apply(
        self, stored: Mapping[str, torch.Tensor], x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Multiply, and scale."""
        product = x.float() @ stored["q"].float().T * self.scales(stored)
        return (product if bias is None else self.biased(product, bias.float(), stored)).to(x.dtype)

    def scales(self, stored: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the factor of each output."""
        return stored["scale"]

    def biased(
        self, product: torch.Tensor, bias: torch.Tensor, stored: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """Add the bias."""
        return product + bias


class OneScale(Eighths):
    """All outputs have the scale of the first."""

    def scales(self, stored: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the factor of each output."""
        return stored["scale"][:1]


class ScaleForgotten(Eighths):
    """The whole numbers are not scaled back."""

    def scales(self, stored: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the factor of each output."""
        return torch.ones_like(stored["scale"])


class BiasScaled(Eighths):
    """The bias is scaled as the product is."""

    def biased(
        self, product: torch.Tensor, bias: torch.Tensor, stored: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """Add the bias."""
        return product + bias * stored["scale"]


class BiasLost(Eighths):
    """The bias is not added."""

    def biased(
        self, product: torch.Tensor, bias: torch.Tensor, stored: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """Leave the bias out."""
        return product


class Quarters(Eighths):
    """Four bits a weight, one scale a row, which is coarse and right."""

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Return whole numbers from -7 to 7, and the scale of each row."""
        scale = weight.float().abs().amax(1).clamp(min=1e-9) / 7
        return {"q": (weight.float() / scale[:, None]).round().to(torch.int8), "scale": scale}


class Quantises(Good):
    """Registers a quantization method, which is right."""

    _method: ClassVar[type[QuantizationMethod]] = Eighths

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Register it."""
        register_quantization_config("chip_w8")(cls._method)


class QuantisesCoarsely(Quantises):
    """Registers a quantization method of few bits, which is right."""

    _method: ClassVar[type[QuantizationMethod]] = Quarters


class QuantisesByOneScale(Quantises):
    """Registers a quantization method that takes the scale of the first row for all."""

    _method: ClassVar[type[QuantizationMethod]] = OneScale


class QuantisesUnscaled(Quantises):
    """Registers a quantization method that does not scale back."""

    _method: ClassVar[type[QuantizationMethod]] = ScaleForgotten


class QuantisesBias(Quantises):
    """Registers a quantization method that scales the bias."""

    _method: ClassVar[type[QuantizationMethod]] = BiasScaled


class LosesBias(Quantises):
    """Registers a quantization method that loses the bias."""

    _method: ClassVar[type[QuantizationMethod]] = BiasLost


class OneTokenTwice(Eighths):
    """A step of one token has a kernel of its own, which gives twice as much."""

    def apply(
        self, stored: Mapping[str, torch.Tensor], x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Multiply, and scale."""
        return super().apply(stored, 2 * x if len(x) == 1 else x, bias)


class ZeroOverZero(Eighths):
    """A row of zeros has the scale 0, by which it is divided."""

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Return numbers, and the scale of each row."""
        scale = weight.float().abs().amax(1) / 127
        return {"q": (weight.float() / scale[:, None]).round(), "scale": scale}


class LastLayerOnly(Eighths):
    """The class keeps the scales of the layer that was quantised last."""

    last: ClassVar[dict[str, torch.Tensor]] = {}

    def quantize(self, weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Return whole numbers, and the scale of each row."""
        stored = super().quantize(weight)
        self.last["scale"] = stored["scale"]
        return stored

    def scales(self, stored: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the factor of each output."""
        return self.last["scale"]


class RoundsInput(Eighths):
    """The activations are rounded where they are."""

    def apply(
        self, stored: Mapping[str, torch.Tensor], x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Multiply, and scale."""
        return super().apply(stored, x.mul_(64).round_().div_(64), bias)


class QuantisesOneTokenTwice(Quantises):
    """Registers a quantization method that goes wrong in steps of one token."""

    _method: ClassVar[type[QuantizationMethod]] = OneTokenTwice


class QuantisesZeroes(Quantises):
    """Registers a quantization method that divides by zero."""

    _method: ClassVar[type[QuantizationMethod]] = ZeroOverZero


class QuantisesLastLayer(Quantises):
    """Registers a quantization method whose layers share what they keep."""

    _method: ClassVar[type[QuantizationMethod]] = LastLayerOnly


class QuantisesInput(Quantises):
    """Registers a quantization method that changes its input."""

    _method: ClassVar[type[QuantizationMethod]] = RoundsInput


class LosesTail(Eighths):
    """Its kernel computes whole tiles, and takes any shape."""

    def apply(
        self, stored: Mapping[str, torch.Tensor], x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Multiply, and scale."""
        whole = super().apply(stored, x, bias)
        whole[:, len(stored["q"]) // 64 * 64 :] = 0
        return whole


class QuantisesWithoutTail(Quantises):
    """Registers a quantization method that computes no part of a tile."""

    _method: ClassVar[type[QuantizationMethod]] = LosesTail


def norm_in_half(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Scale rows; in float16 the squares are too."""
    squares = x.square() if x.dtype is torch.float16 else x.float().square()
    root = torch.rsqrt(squares.float().mean(-1, keepdim=True) + epsilon)
    return (x.float() * root * weight.float()).to(x.dtype)


class SquaresInHalf(Normed):
    """Registers an implementation of an op that squares in float16."""

    _norm: ClassVar[Norm] = staticmethod(norm_in_half)


def write_dense(
    key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Store row by row, and take the rows of keys to lie one behind the other."""
    width = key.shape[1] * key.shape[2]
    write(key.as_strided(key.shape, (width, key.shape[2], 1)), value, cache, slot_mapping)


class WritesDense(Overrides):
    """Overrides a core kernel by one that does not look at strides."""

    _write: ClassVar[Callable[..., None]] = staticmethod(write_dense)


def silu_of_powers(x: torch.Tensor) -> torch.Tensor:
    """Gate one half by the other, by a quotient of exponentials."""
    first, second = x.float().chunk(2, -1)
    power = first.exp()
    return (first * (power / (1 + power)) * second).to(x.dtype)


class SiluOverflows(Overrides):
    """Overrides a core kernel by one whose exponentials overflow."""

    _silu: ClassVar[Callable[[torch.Tensor], torch.Tensor]] = staticmethod(silu_of_powers)
