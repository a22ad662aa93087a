"""Quantization methods that the platform lists: a quantised layer is still that layer, within what rounding explains."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.context import CheckContext, describe, kind_of, locate, unrun
from conformance.model import Finding, Level, Unsupported, Violation
from conformance.numeric.attention_run import device_of
from conformance.places import quoted
from conformance.registry import check

if TYPE_CHECKING:
    import torch

_ENGINES: Final = "reference_model.quantization"
"""Has the engine's own methods."""
_OUTPUTS: Final = 128
_INPUTS: Final = 256
"""Whole tiles of all usual kernels, which may refuse others."""
_RAGGED: Final = (48, 128)
"""Outputs and inputs of a layer that is no whole number of larger tiles."""
_TOKENS: Final = 7
_COUNTS: Final = (1, 40)
"""Tokens of other steps: many methods have a kernel of their own for one, and tiles for many."""
_EMPTY: Final = 5
"""An output whose weights are all zero."""
_NEARLY: Final = 0.05
"""Such an output may be off by this share of the others."""
_ALLOWED: Final = 0.3
"""How far a quantised layer may be off, relative to its result: more than four bits a weight need."""
_NEEDS: Final = (
    "members.kinds",
    "members.engine-calls",
    "identity.lists",
    "identity.torch-device",
    "capabilities.quantization",
    "config.pre-register",
    "device.answers",
)


@attrs.define
class Layer:
    """A linear layer and the method that quantises it.

    Args:
        ctx: of the check.
        method: an instance.
        name: by which the platform lists it.
        dtype: of activations.
    """

    ctx: CheckContext
    method: Any
    name: str
    dtype: torch.dtype

    def weight(self) -> torch.Tensor:
        """Rows of very different sizes, so that one row's scale is not another's."""
        import torch

        drawn = torch.randn(_OUTPUTS, _INPUTS, generator=torch.Generator().manual_seed(1))
        sizes = 2.0 ** (torch.arange(_OUTPUTS) % 6).unsqueeze(1)
        sizes[_EMPTY] = 0
        return (drawn * sizes / 16).to(device_of(self.ctx), self.dtype)

    def x(self, tokens: int = _TOKENS) -> torch.Tensor:
        """Activations."""
        import torch

        drawn = torch.randn(tokens, _INPUTS, generator=torch.Generator().manual_seed(2))
        return drawn.to(device_of(self.ctx), self.dtype)

    def bias(self) -> torch.Tensor:
        """A bias as large as the result."""
        import torch

        return (torch.arange(_OUTPUTS) % 64 - 20.0).to(device_of(self.ctx), self.dtype)

    def call(self, method: str, *args: Any) -> Any:
        """Call the method's `quantize` or `apply`.

        Raises:
            Unsupported: it declines.
            Violation: it raises.
        """
        try:
            with self.ctx.adapter.active(self.ctx.platform):
                return getattr(self.method, method)(*args)
        except NotImplementedError as error:
            raise Unsupported(f"{self.name}: {method} raises {describe(error)}") from error
        except (Exception, SystemExit) as error:
            place = self.ctx.blame(error)
            raise self.fail(
                method,
                "A method that the platform lists quantises a layer and multiplies by it, in the dtypes that it names.",
                f"in {self.dtype} it raised {describe(error)}{quoted(place)}",
                f"Correct that line of `{method}`, or take the method out of `supported_quantization`.",
                place,
            ) from error

    def takes(self, weight: torch.Tensor) -> bool:
        """Say whether the method takes weights of a shape that no tile of a kernel fits; it may refuse them."""
        try:
            with self.ctx.adapter.active(self.ctx.platform):
                self.method.quantize(weight.clone())
        except (ValueError, NotImplementedError) as refused:
            self.ctx.details[f"{self.name}: {list(weight.shape)}"] = describe(refused)
            return False
        except (Exception, SystemExit):
            return True  # which `call` tells
        return True

    def applied(
        self,
        stored: Any,
        bias: torch.Tensor | None,
        x: torch.Tensor | None = None,
        outputs: int = _OUTPUTS,
    ) -> torch.Tensor:
        """Multiply by the stored weight.

        Raises:
            Violation: it gave no such tensor, or changed what it was given.
        """
        import torch

        given = {"x": self.x() if x is None else x, "bias": bias}
        before = {name: None if one is None else one.clone() for name, one in given.items()}
        got = self.call("apply", stored, *given.values())
        for name, one in given.items():
            was = before[name]
            if one is not None and was is not None and not torch.equal(one, was):
                raise self.fail(
                    "apply",
                    "`apply` leaves its input and the bias as they are.",
                    f"in {self.dtype} after `apply` {int((one != was).sum())} of {one.numel()} elements of `{name}` were "
                    "others",
                    f"Compute in a tensor of your own: other layers read `{name}` as well.",
                )
        tokens = len(given["x"]) if given["x"] is not None else 0
        if (
            not isinstance(got, torch.Tensor)
            or tuple(got.shape) != (tokens, outputs)
            or got.dtype is not self.dtype
        ):
            shown = f"{list(got.shape)} in {got.dtype}" if isinstance(got, torch.Tensor) else kind_of(got)
            raise self.fail(
                "apply",
                "`apply` gives `[tokens, outputs]` in the dtype of `x`.",
                f"for {tokens} tokens in {self.dtype} and a weight with {outputs} outputs it gave {shown}",
                "Return the product in the dtype and shape of the layer's result.",
            )
        return got.double().cpu()

    def fail(self, method: str, says: str, did: str, hint: str, place: str = "") -> Violation:
        """A violation that names a method of the class."""
        cls: type = self.method.__class__
        return Violation(
            Finding(
                contract_says=says,
                platform_did=f"{self.name!r}: {did}",
                member=f"supported_quantization → {cls.__name__}.{method}",
                location=place or locate(getattr(cls, method, None)) or locate(cls) or cls.__name__,
                hint=hint,
            )
        )


def _layers(ctx: CheckContext) -> Iterator[Layer]:
    """A layer for each method that is listed and registered, in each dtype that both take."""
    from platform_abc.components.quantization import get_quantization_method, quantization_methods

    if importlib.util.find_spec(_ENGINES) is not None:
        importlib.import_module(_ENGINES)
    with ctx.adapter.active(ctx.platform), contextlib.suppress(Exception, SystemExit):
        unrun(ctx.platform.pre_register_and_update())  # config.pre-register judges what it raises
    known = set(quantization_methods())
    for name in ctx.platform.supported_quantization:
        if name not in known:
            continue
        cls: Any = get_quantization_method(name)
        least: int = cls.get_min_capability()
        if least >= 0 and not ctx.platform.has_device_capability(least):
            continue
        for dtype in cls.get_supported_act_dtypes():
            if dtype in list(ctx.platform.supported_dtypes):
                yield Layer(ctx, cls(None), name, dtype)


def _relative(got: torch.Tensor, right: torch.Tensor) -> float:
    return float((got - right).square().sum().sqrt() / right.square().sum().sqrt())


def _chosen(ctx: CheckContext) -> list[Layer]:
    ctx.need_device()
    layers = list(_layers(ctx))
    if not layers:
        raise Unsupported("the platform lists no quantization method that is registered")
    ctx.details["methods"] = sorted({layer.name for layer in layers})
    return layers


@check(
    "quantization.dense",
    group="capabilities",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=_NEEDS,
    why="A wrong scale or order is no rounding error: the model answers nonsense, in perfect sentences.",
    hint="Multiply by the stored weight with the scales of its own rows or groups.",
)
def dense(ctx: CheckContext) -> None:
    """A layer that was quantised gives what it gives unquantised, within what a few bits a weight lose."""
    import torch

    says = "Quantising a weight and applying it gives what the weight itself gives, up to rounding."
    hint = "Check the scales: which row or group each belongs to, whether it multiplies or divides, and whether once."
    for layer in _chosen(ctx):
        weight = layer.weight()
        before = weight.clone()
        stored = layer.call("quantize", weight)
        if not torch.equal(weight, before):
            raise layer.fail(
                "quantize",
                says,
                "after `quantize` the weight that it was given was another",
                "Work on a copy.",
            )
        got = layer.applied(stored, None)
        if not bool(_others(got).isnan().any()):
            _judge_empty(layer, got)
        exact = layer.x().double().cpu() @ before.double().cpu().T
        gap = _relative(_others(got), _others(exact))
        if not gap <= _ALLOWED:
            raise layer.fail(
                "apply",
                says,
                f"in {layer.dtype} the result differs by {gap:.0%} of its size from that of the weight itself, where up to "
                f"{_ALLOWED:.0%} is taken for rounding{_looks(got, exact) or _NO_FACTOR}",
                hint,
            )
        again = layer.applied(stored, None)
        if not torch.equal(got, again) and not _relative(again, exact) <= _ALLOWED:
            raise layer.fail(
                "apply",
                says,
                f"in {layer.dtype} a second call with the same stored weight is off by {_relative(again, exact):.0%}",
                "Leave what `quantize` stored as it is in `apply`.",
            )
        _judge_others(layer, stored, before)
        _judge_ragged(layer)


def _others(result: torch.Tensor) -> torch.Tensor:
    """A result without the output whose weights are zero."""
    import torch

    return torch.cat([result[:, :_EMPTY], result[:, _EMPTY + 1 :]], dim=1)


def _judge_empty(layer: Layer, got: torch.Tensor) -> None:
    """Judge the output whose weights are all zero.

    Raises:
        Violation: it is not zero.
    """
    empty = got[:, _EMPTY]
    if not bool((empty.abs() <= _NEARLY * _others(got).abs().mean()).all()):
        raise layer.fail(
            "quantize",
            "An output whose weights are all zero stays zero, or next to it.",
            f"in {layer.dtype} an output whose weights are all zero gave {float(empty[0]):g}",
            "Guard against a scale of 0 where a row or a group has no other number than 0, as padded rows do.",
        )


def _judge_others(layer: Layer, stored: Any, weight: torch.Tensor) -> None:
    """Judge other numbers of tokens, activations that are a view, and a second layer.

    Raises:
        Violation: one of them is off.
    """
    import torch

    second = weight.flip(0).contiguous()
    other = layer.call("quantize", second)
    wide = torch.cat([layer.x(), layer.x()], dim=1)
    for words, x, kept, dense_weight in (
        *((f"a step of {count} tokens", layer.x(count), stored, weight) for count in _COUNTS),
        ("activations that are a view of a wider tensor", wide[:, :_INPUTS], stored, weight),
        ("the first of two layers, after the second was quantised", layer.x(), stored, weight),
        ("the second of two layers", layer.x(), other, second),
    ):
        exact = x.double().cpu() @ dense_weight.double().cpu().T
        got = layer.applied(kept, None, x)
        gap = _relative(got, exact)
        if not gap <= _ALLOWED:
            raise layer.fail(
                "apply",
                "A quantised layer gives what it gives unquantised, for any number of tokens, beside other layers.",
                f"in {layer.dtype}, for {words}, the result differs by {gap:.0%} of its size from that of the weight "
                f"itself; for seven tokens of one layer it is right{_looks(got, exact)}",
                "Look at the kernel that is chosen for this number of tokens, at strides, and at what is kept on the class.",
            )


_NO_FACTOR: Final = "; neither one factor for all of it nor one for each output explains it"


def _judge_ragged(layer: Layer) -> None:
    """Judge a layer whose sizes are no multiples of larger tiles, if the method takes it.

    Raises:
        Violation: it does, and the result is off.
    """
    outputs, inputs = _RAGGED
    weight, x = layer.weight()[:outputs, :inputs].contiguous(), layer.x()[:, :inputs].contiguous()
    if not layer.takes(weight):
        return
    exact = x.double().cpu() @ weight.double().cpu().T
    gap = _relative(layer.applied(layer.call("quantize", weight), None, x, outputs), exact)
    if not gap <= _ALLOWED:
        raise layer.fail(
            "apply",
            "A quantised layer gives what it gives unquantised, for weights of any shape that `quantize` takes.",
            f"in {layer.dtype}, for a weight of {[outputs, inputs]}, the result differs by "
            f"{gap:.0%} of its size from that of the weight itself; for one of {[_OUTPUTS, _INPUTS]} it is right",
            "Look at the last tile of the kernel, or raise ValueError in `quantize` for sizes that it does not fit.",
        )


def _looks(got: torch.Tensor, exact: torch.Tensor) -> str:
    factor = float((got * exact).sum() / (exact * exact).sum())
    if abs(factor) > 1e-6 and _relative(got / factor, exact) <= _ALLOWED:
        return f"; one factor explains it: all of it is {factor:.3g} times what is right"
    by_row = ((got * exact).sum(0) / (exact * exact).sum(0)).nan_to_num(nan=1.0)
    if (
        len(got) > 1 and _relative(got / by_row, exact) <= _ALLOWED
    ):  # of one token any result has such factors
        return (
            f"; one factor for each output explains it: they are {float(by_row.min()):.3g} to {float(by_row.max()):.3g} "
            "times what is right"
        )
    return ""


@check(
    "quantization.bias",
    group="capabilities",
    level=Level.COMPONENTS,
    engines=("native",),
    needs=(*_NEEDS, "quantization.dense"),
    why="Some models have biases, and few test prompts show that one is lost.",
    hint="Add the bias once, after the scales.",
)
def bias(ctx: CheckContext) -> None:
    """A bias is added once, as it is."""
    import torch

    for layer in _chosen(ctx):
        stored = layer.call("quantize", layer.weight())
        added = layer.applied(stored, layer.bias()) - layer.applied(stored, None)
        exact = layer.bias().double().cpu().expand_as(added)
        within = 64 * torch.finfo(layer.dtype).eps * (1 + exact.abs())
        gap = (added - exact).abs()
        if not bool((gap <= within).all()):
            raise layer.fail(
                "apply",
                "`apply` adds the bias that it is given, once and unscaled.",
                f"in {layer.dtype} a bias of {float(exact[0, 0]):g} to {float(exact[0, -1]):g} changed the result by "
                f"{float(added[0, 0]):.4g} to {float(added[0, -1]):.4g}",
                "Add `bias` to the product after the scales.",
            )
