"""The wrapper of low-rank adapter kernels, as `get_punica_wrapper` names it.

One batch may mix adapters. `T` are tokens, `S` adapter slots, `R` the rank. A layer's weights come as
stacks over slots: `lora_a` is `[S, R, inputs]`, `lora_b` is `[S, outputs, R]`. A token whose slot is -1
uses no adapter and must come out unchanged.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import torch


def _tuple(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


@attrs.frozen(kw_only=True)
class LoRAMapping:
    """Which adapter each token of a step uses.

    Args:
        index_mapping: adapter number of each token, 0 for none.
        prompt_mapping: adapter number of each row of logits, 0 for none.
        is_prefill: the step holds prompts.
    """

    index_mapping: Sequence[int] = attrs.field(converter=_tuple)
    prompt_mapping: Sequence[int] = attrs.field(converter=_tuple)
    is_prefill: bool = False


class PunicaWrapperBase(abc.ABC):
    """Applies the adapters of a step.

    Where the platform's `can_update_inplace` says yes, a method changes `y` and may return it or None. Elsewhere
    it returns what `y` should become. Rows whose slot is -1 come out bit for bit as they were, and as zeros of
    `add_shrink`, whose `y` is a buffer that holds rubbish.

    Args:
        max_num_batched_tokens: most tokens of a step.
        max_batches: most requests of a step.
        device: where the work happens.
        max_loras: adapter slots.
        **kwargs: what later engines add; to be accepted and ignored.
    """

    def __init__(
        self,
        max_num_batched_tokens: int,
        max_batches: int,
        device: torch.device | str,
        max_loras: int = 1,
        **kwargs: Any,
    ) -> None:
        del kwargs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_batches = max_batches
        self.device = device
        self.max_loras = max_loras
        self.token_slots: tuple[int, ...] = ()
        self.prompt_slots: tuple[int, ...] = ()

    def update_metadata(
        self,
        mapping: LoRAMapping,
        lora_index_to_id: Sequence[int | None],
        max_loras: int,
        vocab_size: int,
    ) -> None:
        """Take over which slot each token of the next step uses.

        Args:
            mapping: adapter number by token and by row of logits.
            lora_index_to_id: adapter number in each slot, None for an empty slot.
            max_loras: adapter slots.
            vocab_size: size of the vocabulary.

        Raises:
            ValueError: an adapter is in no slot, or there are more tokens than announced.
        """
        del vocab_size
        if len(mapping.index_mapping) > self.max_num_batched_tokens:
            raise ValueError(
                f"{len(mapping.index_mapping)} tokens in a step, but the wrapper was made for "
                f"{self.max_num_batched_tokens}"
            )
        slots = {
            number: slot for slot, number in enumerate(lora_index_to_id[:max_loras]) if number is not None
        }
        missing = sorted({*mapping.index_mapping, *mapping.prompt_mapping} - {0} - set(slots))
        if missing:
            raise ValueError(f"adapters {missing} are in no slot (slots: {list(lora_index_to_id)})")
        self.token_slots = tuple(slots.get(number, -1) for number in mapping.index_mapping)
        self.prompt_slots = tuple(slots.get(number, -1) for number in mapping.prompt_mapping)

    @abc.abstractmethod
    def add_shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: Sequence[torch.Tensor],
        scale: float,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Compute `y[i] = (x @ lora_a[i].T) * scale` for each slice `i`.

        Args:
            y: float32 `[slices, T, R]`, filled in place.
            x: `[T, inputs]`.
            lora_a_stacked: one `[S, R, inputs]` for each slice.
            scale: factor of the product.
        """

    @abc.abstractmethod
    def add_expand(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_b_stacked: Sequence[torch.Tensor],
        output_slices: Sequence[int],
        offset_start: int = 0,
        add_inputs: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Add `x[i] @ lora_b[i].T` to the slice `i` of `y`.

        Args:
            y: `[T, sum of output_slices]`, changed in place.
            x: `[slices, T, R]`.
            lora_b_stacked: one `[S, outputs, R]` for each slice.
            output_slices: outputs of each slice.
            offset_start: first column of the first slice.
            add_inputs: add to `y`; False overwrites.
        """

    @abc.abstractmethod
    def add_lora_embedding(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_b_stacked: torch.Tensor,
        add_inputs: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Add `x @ lora_b.T` to an embedding.

        Args:
            y: `[T, hidden]`, changed in place.
            x: `[T, R]`, rows of the adapter's embedding.
            lora_b_stacked: `[S, hidden, R]`.
            add_inputs: add to `y`; False overwrites.
        """

    @abc.abstractmethod
    def add_lora_linear(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: Sequence[torch.Tensor],
        lora_b_stacked: Sequence[torch.Tensor],
        scale: float,
        output_slices: Sequence[int],
        *,
        buffer: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Add `(x @ lora_a[i].T) @ lora_b[i].T * scale` to the slice `i` of `y`.

        Args:
            y: `[T, sum of output_slices]`, changed in place.
            x: `[T, inputs]`.
            lora_a_stacked: one `[S, R, inputs]` for each slice.
            lora_b_stacked: one `[S, outputs, R]` for each slice.
            scale: factor of the product.
            output_slices: outputs of each slice.
            buffer: float32 `[slices, T, R]` to be used in between; None allocates.
        """

    @abc.abstractmethod
    def add_lora_logits(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: torch.Tensor,
        lora_b_stacked: torch.Tensor,
        scale: float,
        *,
        buffer: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Add `(x @ lora_a.T) @ lora_b.T * scale` to logits, by the slots of the rows of logits.

        Args:
            y: `[rows, vocabulary]`, changed in place.
            x: `[rows, hidden]`.
            lora_a_stacked: `[S, R, hidden]`.
            lora_b_stacked: `[S, vocabulary, R]`.
            scale: factor of the product.
            buffer: float32 `[rows, R]` to be used in between; None allocates.
        """
