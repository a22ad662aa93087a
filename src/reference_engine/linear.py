"""Linear layers of a tensor-parallel model: fused, divided by outputs or inputs, and the vocabulary's two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import torch
from torch.nn.functional import linear

from reference_engine.lora import AdapterSlots
from reference_engine.weights import Cut

if TYPE_CHECKING:
    from platform_abc.components.quantization import QuantizationMethod
    from reference_engine.parallel import GroupCoordinator
    from reference_engine.weights import Weights


_FEW: Final = 8
_FEWER: Final = 2
"""Rows up to which a product is turned round: with at least as many outputs as inputs, and otherwise."""


@attrs.frozen(kw_only=True)
class Part:
    """One projection of a layer that may hold several side by side.

    Args:
        name: of its weight in the folder, without `.weight`.
        outputs: of the whole model.
        inputs: of the whole model.
        cut: this rank's rows or columns; None for all.
    """

    name: str
    outputs: int
    inputs: int
    cut: Cut | None = None

    @property
    def own_outputs(self) -> int:
        """Outputs of this rank."""
        return self.cut.length if self.cut is not None and self.cut.dim == 0 else self.outputs

    @property
    def own_inputs(self) -> int:
        """Inputs of this rank."""
        return self.cut.length if self.cut is not None and self.cut.dim == 1 else self.inputs


def share(dim: int, size: int, group: GroupCoordinator) -> Cut | None:
    """Return this rank's equal share of a dimension, which the ranks divide; None for a group of one.

    Args:
        dim: 0 for outputs, 1 for inputs.
        size: of the whole.
        group: the ranks.
    """
    if group.world_size == 1:
        return None
    own = size // group.world_size
    return Cut(dim, group.rank * own, own)


class Linear(torch.nn.Module):
    """One or several projections of the same input, as one product; quantized where a method is given.

    Args:
        weights: where the weights come from.
        parts: the projections, in the order of the outputs.
        bias: they have one; of a layer that is divided by inputs, only the first rank adds it.
        method: the quantization method; None keeps the weight as it is.
        group: the ranks; needed to add up what a layer divided by inputs gives.
    """

    def __init__(
        self,
        weights: Weights,
        parts: Sequence[Part],
        *,
        bias: bool,
        method: QuantizationMethod | None,
        group: GroupCoordinator,
    ) -> None:
        super().__init__()
        self.parts = tuple(parts)
        self.group = group
        self.outputs = [part.own_outputs for part in parts]
        self.inputs = parts[0].own_inputs
        self.reduces = group.world_size > 1 and parts[0].cut is not None and parts[0].cut.dim == 1
        self.method = method
        self.adapters: AdapterSlots | None = None
        weight = torch.empty(sum(self.outputs), self.inputs, dtype=weights.dtype, device=weights.device)
        start = 0
        for part, outputs in zip(parts, self.outputs, strict=True):
            own = weight.narrow(0, start, outputs)
            weights.fill(own, f"{part.name}.weight", (part.outputs, part.inputs), part.cut)
            start += outputs
        self.stored = {"weight": weight} if method is None else dict(method.quantize(weight))
        self.bias = self._load_bias(weights) if bias else None

    def _load_bias(self, weights: Weights) -> torch.Tensor | None:
        loaded = [
            weights.take(f"{part.name}.bias", (part.outputs,), None if self.reduces else part.cut)
            for part in self.parts
        ]
        return None if self.reduces and self.group.rank else torch.cat(loaded)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply, and add up over the ranks where each has only some of the inputs.

        Args:
            x: `[T, inputs of this rank]`.
        """
        if self.method is None:
            y = multiply(x, self.stored["weight"], self.bias)
        else:
            y = self.method.apply(self.stored, x, self.bias)
        if self.adapters is not None:
            y = self.adapters(y, x)
        return self.group.all_reduce(y) if self.reduces else y


def multiply(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply rows by a weight, the other way round where they are few.

    A weight that comes from memory is the cost of a step with few rows. Measured on the host, the product of
    the weight with the rows as columns reads it once, at the memory's speed, where the usual one takes up to
    twice as long, even if a single row has to be doubled for it.

    Args:
        x: `[rows, inputs]`.
        weight: `[outputs, inputs]`.
        bias: `[outputs]`, or None.

    Returns:
        `[rows, outputs]`.
    """
    rows, (outputs, inputs) = x.shape[0], weight.shape
    if not 0 < rows <= (_FEW if outputs >= inputs else _FEWER):
        return linear(x, weight, bias)
    # Copied, not expanded: the kernel is quick only where both lie along the inputs.
    if rows > 1:
        product = torch.mm(weight, x.contiguous().t()).t().contiguous()
    else:
        product = torch.mm(weight, torch.cat((x, x)).t())[:, 0].unsqueeze(0).contiguous()
    return product if bias is None else product + bias


class Vocabulary:
    """Which tokens this rank holds, of a vocabulary that the ranks divide into equal shares.

    Args:
        size: tokens; the last share may be filled up with tokens that there are not.
        group: the ranks.
    """

    def __init__(self, size: int, group: GroupCoordinator) -> None:
        self.size = size
        self.group = group
        self.share = -(-size // group.world_size)
        self.start = group.rank * self.share
        self.held = max(0, min(self.share, size - self.start))

    def load(self, weights: Weights, name: str, width: int) -> torch.Tensor:
        """Return this rank's rows of a weight, `[share, width]`.

        Args:
            weights: where it comes from.
            name: in the folder.
            width: of a row.
        """
        if self.group.world_size == 1:
            return weights.take(name, (self.size, width))
        rows = torch.zeros(self.share, width, dtype=weights.dtype, device=weights.device)
        weights.fill(rows[: self.held], name, (self.size, width), Cut(0, self.start, self.held))
        return rows


class Embedding(torch.nn.Module):
    """The rows of tokens, each held by one rank.

    Args:
        weights: where they come from.
        name: in the folder.
        vocabulary: which tokens this rank holds.
        width: of a row.
    """

    def __init__(self, weights: Weights, name: str, vocabulary: Vocabulary, width: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.weight = vocabulary.load(weights, name, width)
        self.adapters: AdapterSlots | None = None

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Look tokens up.

        Args:
            token_ids: int64 `[T]`.

        Returns:
            `[T, width]`.
        """
        own, group = self.vocabulary, self.vocabulary.group
        if group.world_size == 1:
            found = torch.nn.functional.embedding(token_ids, self.weight)
        else:
            local = token_ids - own.start
            elsewhere = (local < 0) | (local >= own.held)
            rows = torch.nn.functional.embedding(local.masked_fill(elsewhere, 0), self.weight)
            found = group.all_reduce(rows.masked_fill(elsewhere.unsqueeze(-1), 0))
        return found if self.adapters is None else self.adapters.embed(found, token_ids)


class Head(torch.nn.Module):
    """Scores of all tokens, the columns divided among the ranks.

    Args:
        weight: `[share, width]`, of this rank.
        vocabulary: which tokens these are.
    """

    def __init__(self, weight: torch.Tensor, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.weight = weight
        self.adapters: AdapterSlots | None = None

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Score.

        Args:
            states: `[rows, width]`.

        Returns:
            `[rows, vocabulary]`; no rows on a rank to which logits are not gathered. More columns where the
            ranks cannot share the vocabulary evenly: these hold minus infinity.
        """
        logits = multiply(states, self.weight)
        if self.adapters is not None:
            logits = self.adapters.score(logits, states)
        own = self.vocabulary
        if own.held < own.share:
            from platforms import current_platform

            logits[:, own.held :] = current_platform.get_infinity_values(logits.dtype)[0]
        whole = own.group.gather_logits(logits)
        return logits.new_empty(0, own.size) if whole is None else whole
