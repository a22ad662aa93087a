"""What the LoRA wrappers of this package share: the slots of a step, on host and device, and argument checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from platform_abc.components.lora import LoRAMapping, PunicaWrapperBase

BASE = -1
"""The slot of a token that uses no adapter."""


class SlotWrapper(PunicaWrapperBase):
    """A wrapper that keeps the slots of a step in tensors of fixed size, which a device graph may read.

    Whatever a method is given more rows than the step has slots, the rest uses the base model.

    Args:
        max_num_batched_tokens: most tokens of a step.
        max_batches: most requests of a step.
        device: where the work happens.
        max_loras: adapter slots.
        **kwargs: what later engines add; `can_update_inplace` overrules what the platform says.

    The methods return the result. It is `y` itself where tensors can be updated in place, else a new one, and
    `y` is left alone.
    """

    def __init__(
        self,
        max_num_batched_tokens: int,
        max_batches: int,
        device: torch.device | str,
        max_loras: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(max_num_batched_tokens, max_batches, device, max_loras, **kwargs)
        inplace: bool | None = kwargs.get("can_update_inplace")
        if inplace is None:
            from platforms import current_platform

            inplace = current_platform.can_update_inplace()
        self.inplace = inplace
        self._largest = BASE
        self._groups: dict[tuple[int, bool], list[tuple[int, slice | torch.Tensor]]] = {}
        self._of_tokens = torch.full((max_num_batched_tokens,), BASE, dtype=torch.int32, device=device)
        self._of_logits = torch.full((max_num_batched_tokens,), BASE, dtype=torch.int32, device=device)

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
            ValueError: an adapter is in no slot, or there are more tokens or rows than announced.
        """
        if len(mapping.prompt_mapping) > self.max_num_batched_tokens:
            raise ValueError(
                f"{len(mapping.prompt_mapping)} rows of logits in a step, but the wrapper was made for "
                f"{self.max_num_batched_tokens} tokens"
            )
        super().update_metadata(mapping, lora_index_to_id, max_loras, vocab_size)
        self._groups.clear()
        self._largest = max((*self.token_slots, *self.prompt_slots), default=BASE)
        _fill(self._of_tokens, self.token_slots)
        _fill(self._of_logits, self.prompt_slots)

    def tensor(self, rows: int, *, logits: bool = False) -> torch.Tensor:
        """Return the slots of the first rows, int32 `[rows]`.

        Args:
            rows: how many.
            logits: of rows of logits; else of tokens.

        Raises:
            ValueError: there are more rows than the wrapper was made for.
        """
        self._check(rows)
        return (self._of_logits if logits else self._of_tokens)[:rows]

    def groups(self, rows: int, *, logits: bool = False) -> list[tuple[int, slice | torch.Tensor]]:
        """Return each slot that the first rows use, with its rows; those of the base model are left out.

        Args:
            rows: how many.
            logits: of rows of logits; else of tokens.

        Raises:
            ValueError: there are more rows than the wrapper was made for.
        """
        self._check(rows)
        known = self._groups.get((rows, logits))
        if known is None:
            places: dict[int, list[int]] = {}
            for row, slot in enumerate((self.prompt_slots if logits else self.token_slots)[:rows]):
                if slot != BASE:
                    places.setdefault(slot, []).append(row)
            known = [(slot, self._rows(found)) for slot, found in places.items()]
            self._groups[rows, logits] = known
        return known

    def _rows(self, found: list[int]) -> slice | torch.Tensor:
        # Neighbours are a slice, which is a view.
        if found[-1] - found[0] == len(found) - 1:
            return slice(found[0], found[-1] + 1)
        return torch.tensor(found, device=self.device)

    def _check(self, rows: int) -> None:
        if rows > self.max_num_batched_tokens:
            raise ValueError(
                f"{rows} rows in a step, but the wrapper was made for {self.max_num_batched_tokens} tokens"
            )

    def check_slots(self, stacked: Sequence[torch.Tensor]) -> None:
        """Refuse weights that lack a slot of this step.

        Args:
            stacked: each `[S, …]`.

        Raises:
            ValueError: naming the slot.
        """
        for one in stacked:
            if self._largest >= one.shape[0]:
                raise ValueError(
                    f"a token of this step uses slot {self._largest}, but the weights have {one.shape[0]} slots"
                )

    def target(self, y: torch.Tensor) -> torch.Tensor:
        """Return the tensor that is changed and returned in place of `y`."""
        return y if self.inplace else y.clone()

    def between(self, buffer: torch.Tensor | None, shape: tuple[int, ...]) -> torch.Tensor:
        """Return memory for what lies between the two matrices, float32.

        Args:
            buffer: the caller's; None allocates.
            shape: `[slices, T, R]`.

        Raises:
            ValueError: the caller's has another shape.
        """
        if buffer is None:
            return torch.empty(shape, dtype=torch.float32, device=self.device)
        if tuple(buffer.shape) != shape:
            raise ValueError(f"expected a buffer of the shape {shape}, got {tuple(buffer.shape)}")
        return buffer


def _fill(into: torch.Tensor, slots: Sequence[int]) -> None:
    into.fill_(BASE)
    if slots:
        into[: len(slots)] = torch.tensor(slots, dtype=torch.int32)


def check_slices(
    y: torch.Tensor,
    stacked: Sequence[torch.Tensor],
    output_slices: Sequence[int],
    offset_start: int = 0,
) -> None:
    """Refuse slices that do not fit the outputs.

    Args:
        y: `[T, outputs]`.
        stacked: one `[S, outputs of the slice, R]` for each slice.
        output_slices: outputs of each slice.
        offset_start: first column of the first slice.

    Raises:
        ValueError: naming the numbers.
    """
    sizes = [one.shape[1] for one in stacked]
    if sizes != list(output_slices):
        raise ValueError(
            f"expected slices of {sizes} outputs, as their weights have, got {list(output_slices)}"
        )
    if offset_start + sum(sizes) > y.shape[-1]:
        raise ValueError(
            f"slices of {sizes} outputs from column {offset_start} on do not fit {y.shape[-1]} columns"
        )
