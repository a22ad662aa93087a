"""Linear layers of a tensor-parallel model: fused, divided by outputs or inputs, and the vocabulary's two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import torch
from torch.nn.functional import embedding, linear

from reference_model.lora import AdapterSlots
from reference_model.weights import Cut

if TYPE_CHECKING:
    from platform_abc.components.quantization import QuantizationMethod
    from platform_abc.config import EngineConfig, ModelConfig
    from reference_model.model_config import LlamaShape
    from reference_model.parallel import GroupCoordinator
    from reference_model.weights import Weights


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


@attrs.frozen(eq=False)
class Build:
    """What every layer is built from.

    Args:
        config: the engine's configuration.
        model: its model part.
        shape: of the model.
        weights: where weights come from.
        method: the quantization method; None for none.
        group: the ranks, which divide heads and inner sizes.
    """

    config: EngineConfig
    model: ModelConfig
    shape: LlamaShape
    weights: Weights
    method: QuantizationMethod | None
    group: GroupCoordinator

    def share(self, dim: int, size: int) -> Cut | None:
        """Return this rank's equal share of a dimension, which the ranks divide; None for a group of one.

        Args:
            dim: 0 for outputs, 1 for inputs.
            size: of the whole.
        """
        if self.group.world_size == 1:
            return None
        own = size // self.group.world_size
        return Cut(dim, self.group.rank * own, own)


class Linear(torch.nn.Module):
    """One or several projections of the same input, as one product; quantized where there is a method.

    Args:
        build: what it is built from; its ranks add up what a layer divided by inputs gives.
        parts: the projections, in the order of the outputs.
        bias: they have one; of a layer that is divided by inputs, only the first rank adds it.
    """

    def __init__(self, build: Build, parts: Sequence[Part], *, bias: bool = False) -> None:
        super().__init__()
        weights, self.group, self.method = build.weights, build.group, build.method
        self.parts = tuple(parts)
        self.outputs = [part.own_outputs for part in parts]
        self.inputs = parts[0].own_inputs
        self.reduces = parts[0].cut is not None and parts[0].cut.dim == 1
        self.adapters: AdapterSlots | None = None
        weight = torch.empty(sum(self.outputs), self.inputs, dtype=weights.dtype, device=weights.device)
        for part, own in zip(parts, torch.split(weight, self.outputs), strict=True):
            weights.fill(own, f"{part.name}.weight", (part.outputs, part.inputs), part.cut)
        self.stored = {"weight": weight} if self.method is None else dict(self.method.quantize(weight))
        self.bias: torch.Tensor | None = None
        if bias:
            cuts = [None if self.reduces else part.cut for part in parts]
            loaded = [
                weights.take(f"{part.name}.bias", (part.outputs,), cut)
                for part, cut in zip(parts, cuts, strict=True)
            ]
            self.bias = None if self.reduces and self.group.rank else torch.cat(loaded)

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
        width: of a token's row, in the embedding and in the head.
        group: the ranks.
    """

    def __init__(self, size: int, width: int, group: GroupCoordinator) -> None:
        self.size = size
        self.width = width
        self.group = group
        self.share = -(-size // group.world_size)
        self.start = min(group.rank * self.share, size)
        self.held = max(0, min(self.share, size - self.start))

    def load(self, weights: Weights, name: str) -> torch.Tensor:
        """Return this rank's rows of a weight, `[share, width]`.

        Args:
            weights: where it comes from.
            name: in the folder.
        """
        rows = torch.zeros(self.share, self.width, dtype=weights.dtype, device=weights.device)
        cut = None if self.group.world_size == 1 else Cut(0, self.start, self.held)
        weights.fill(rows[: self.held], name, (self.size, self.width), cut)
        return rows


class Embedding(torch.nn.Module):
    """The rows of tokens, each held by one rank.

    Args:
        weights: where they come from.
        vocabulary: which tokens this rank holds.
    """

    def __init__(self, weights: Weights, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.inputs, self.outputs = vocabulary.size, [vocabulary.width]
        part = Part(name="model.embed_tokens", outputs=vocabulary.width, inputs=vocabulary.size)
        self.parts = (part,)
        self.weight = vocabulary.load(weights, f"{part.name}.weight")
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
            found = embedding(token_ids, self.weight)
        else:
            local = token_ids - own.start
            elsewhere = (local < 0) | (local >= own.held)
            rows = embedding(local.masked_fill(elsewhere, 0), self.weight)
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
        self.vocabulary = own = vocabulary
        self.inputs, self.outputs = own.width, [own.share]
        cut = Cut(0, own.start, own.held)
        self.parts = (Part(name="lm_head", outputs=own.size, inputs=own.width, cut=cut),)
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
