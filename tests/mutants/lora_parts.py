"""LoRA wrappers of the zoo: one written plainly, which is right, one that returns, and one for each mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from platform_abc.components.lora import LoRAMapping, PunicaWrapperBase


class Plain(PunicaWrapperBase):
    """Token by token, in place."""

    def add_shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: Sequence[torch.Tensor],
        scale: float,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Fill each slice of `y`."""
        return self.shrink(y, x, lora_a_stacked, scale, self.slots())

    def shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        scale: float,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Fill each slice of `y`, by slots."""
        y.zero_()
        for number, stack in enumerate(stacks):
            for row, slot in enumerate(slots):
                if slot >= 0:
                    y[number, row] = (stack[slot].float() @ x[row].float()) * self.factor(scale)

        return None

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
        """Add to each slice of `y`."""
        return self.expand(y, x, lora_b_stacked, output_slices, offset_start, add_inputs, self.slots())

    def expand(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        widths: Sequence[int],
        start: int,
        adds: bool,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Add to each slice of `y`, by slots."""
        for number, (stack, width) in enumerate(zip(stacks, widths, strict=True)):
            for row, slot in enumerate(slots):
                if slot >= 0:
                    add = stack[slot].float() @ x[number, row].float()
                    before = y[row, start : start + width].float() if adds else 0
                    y[row, start : start + width] = before + add
            start += width
        return None

    def add_lora_embedding(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_b_stacked: torch.Tensor,
        add_inputs: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Add to an embedding."""
        return self.expand(y, x[None], [lora_b_stacked], [y.shape[1]], 0, add_inputs, self.slots())

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
        """Shrink and expand."""
        rank = lora_a_stacked[0].shape[1]
        between = torch.zeros(len(lora_a_stacked), len(x), rank) if buffer is None else buffer
        self.shrink(between, x, lora_a_stacked, scale, self.slots())
        return self.expand(y, between, lora_b_stacked, output_slices, 0, True, self.slots())

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
        """Shrink and expand by the slots of the rows of logits."""
        slots = self.prompt_slots
        between = torch.zeros(1, len(x), lora_a_stacked.shape[1])
        self.shrink(between, x, [lora_a_stacked], scale, slots)
        return self.expand(y, between, [lora_b_stacked], [y.shape[1]], 0, True, slots)

    def slots(self) -> Sequence[int]:
        """Return the slot of each token."""
        return self.token_slots

    def factor(self, scale: float) -> float:
        """Return the factor of the product."""
        return scale


class Returns(Plain):
    """Leaves what it is given alone, and returns its results; sorts tokens by adapter in between."""

    def add_shrink(self, y: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Fill each slice of a copy."""
        y = y.clone()
        super().add_shrink(y, *args, **kwargs)
        return y

    def add_expand(self, y: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Add to each slice of a copy."""
        y = y.clone()
        super().add_expand(y, *args, **kwargs)
        return y

    def add_lora_embedding(self, y: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Add to a copy."""
        y = y.clone()
        super().add_lora_embedding(y, *args, **kwargs)
        return y

    def add_lora_linear(self, y: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Add to a copy."""
        y = y.clone()
        super().add_lora_linear(y, *args, **kwargs)
        return y

    def add_lora_logits(self, y: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Add to a copy."""
        y = y.clone()
        super().add_lora_logits(y, *args, **kwargs)
        return y


class FirstSlotOnly(Plain):
    """All tokens use the adapter of slot 0."""

    def slots(self) -> Sequence[int]:
        """Return the slot of each token."""
        return [0 if slot >= 0 else -1 for slot in self.token_slots]


class AdaptersMixed(Plain):
    """The tokens of a batch get each other's adapters where a layer shrinks and expands at once."""

    def add_lora_linear(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Shrink and expand."""
        kept = self.token_slots
        used = sorted({slot for slot in kept if slot >= 0})
        swap = {slot: used[-1 - place] for place, slot in enumerate(used)}
        self.token_slots = tuple(swap.get(slot, -1) for slot in kept)
        result = super().add_lora_linear(*args, **kwargs)
        self.token_slots = kept
        return result


class ShrinkAdds(Plain):
    """Its shrink adds to what is in the buffer."""

    def add_shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: Sequence[torch.Tensor],
        scale: float,
        **kwargs: Any,
    ) -> torch.Tensor | None:
        """Fill each slice of `y`."""
        before = y.clone()
        super().add_shrink(y, x, lora_a_stacked, scale, **kwargs)
        y += before
        return None


class ScaleLeftOut(Plain):
    """It does not scale."""

    def factor(self, scale: float) -> float:
        """Return the factor of the product."""
        return 1.0


class SlicesReversed(Plain):
    """It expands the slices from the last to the first."""

    def expand(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        widths: Sequence[int],
        start: int,
        adds: bool,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Add to each slice of `y`, by slots."""
        return super().expand(y, x.flip(0), stacks[::-1], widths[::-1], start, adds, slots)


class OffsetIgnored(Plain):
    """It begins at the first column."""

    def expand(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        widths: Sequence[int],
        start: int,
        adds: bool,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Add to each slice of `y`, by slots."""
        return super().expand(y, x, stacks, widths, 0, adds, slots)


class Overwrites(Plain):
    """A linear layer's own result is overwritten by the adapter's."""

    def add_lora_linear(self, y: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Shrink and expand."""
        for row, slot in enumerate(self.token_slots):
            if slot >= 0:
                y[row] = 0
        return super().add_lora_linear(y, *args, **kwargs)


class LogitsByToken(Plain):
    """It takes the adapters of logits from the tokens."""

    def add_lora_logits(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Shrink and expand by the slots of the rows of logits."""
        kept, count = self.prompt_slots, len(self.prompt_slots)
        self.prompt_slots = self.token_slots[:count]
        result = super().add_lora_logits(*args, **kwargs)
        self.prompt_slots = kept
        return result


class EmbeddingTwice(Plain):
    """It adds to an embedding twice."""

    def add_lora_embedding(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Add to an embedding."""
        super().add_lora_embedding(*args, **kwargs)
        return super().add_lora_embedding(*args, **kwargs)


class BaseChanged(Plain):
    """Where a layer shrinks and expands at once, tokens without an adapter use the last slot's."""

    def add_lora_linear(self, *args: Any, **kwargs: Any) -> torch.Tensor | None:
        """Shrink and expand."""
        kept = self.token_slots
        self.token_slots = tuple(slot if slot >= 0 else self.max_loras - 1 for slot in kept)
        result = super().add_lora_linear(*args, **kwargs)
        self.token_slots = kept
        return result


class KeepsFirstBatch(Plain):
    """It derives the slots of a batch's tokens once."""

    first: Sequence[int] | None = None

    def update_metadata(
        self, mapping: LoRAMapping, lora_index_to_id: Sequence[int | None], max_loras: int, vocab_size: int
    ) -> None:
        """Take over which slot each token of the next step uses."""
        super().update_metadata(mapping, lora_index_to_id, max_loras, vocab_size)
        if self.first is None:
            self.first = self.token_slots
        self.token_slots = tuple((*self.first, *self.token_slots)[: len(self.token_slots)])


class KeepsSlots(Plain):
    """It remembers in which slot an adapter was first."""

    known: dict[int, int]

    def update_metadata(
        self, mapping: LoRAMapping, lora_index_to_id: Sequence[int | None], max_loras: int, vocab_size: int
    ) -> None:
        """Take over which slot each token of the next step uses."""
        super().update_metadata(mapping, lora_index_to_id, max_loras, vocab_size)
        self.known = getattr(self, "known", {})
        for slot, number in enumerate(lora_index_to_id):
            if number is not None:
                self.known.setdefault(number, slot)
        self.token_slots = tuple(self.known.get(number, -1) for number in mapping.index_mapping)


class RefusesMixed(Plain):
    """It takes batches of one adapter only."""

    def update_metadata(
        self, mapping: LoRAMapping, lora_index_to_id: Sequence[int | None], max_loras: int, vocab_size: int
    ) -> None:
        """Take over which slot each token of the next step uses."""
        if len(set(mapping.index_mapping)) > 1:
            raise AssertionError("one adapter at a time")
        super().update_metadata(mapping, lora_index_to_id, max_loras, vocab_size)


class SmallRanks(Plain):
    """It computes ranks of sixteen at most."""

    def shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        scale: float,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Fill each slice of `y`, by slots."""
        super().shrink(y, x, stacks, scale, slots)
        y[..., 16:] = 0
        return None


class KeepsPacked(Plain):
    """It packs the weights of a stack once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.packed: dict[int, torch.Tensor] = {}

    def shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        scale: float,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Fill each slice of `y`, by slots."""
        kept = [self.packed.setdefault(one.data_ptr(), one.clone()) for one in stacks]
        return super().shrink(y, x, kept, scale, slots)


class LeavesRubbish(Plain):
    """Its shrink leaves the rows of tokens without an adapter as they were."""

    def shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        scale: float,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Fill each slice of `y`, by slots."""
        rows = [row for row, slot in enumerate(slots) if slot < 0]
        before = y[:, rows].clone()
        super().shrink(y, x, stacks, scale, slots)
        y[:, rows] = before
        return None


class BufferLeaks(Plain):
    """It multiplies what its buffer holds by zero, for tokens without an adapter."""

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
        """Shrink and expand."""
        held = 0 * buffer.sum() if buffer is not None else 0
        super().add_lora_linear(
            y, x, lora_a_stacked, lora_b_stacked, scale, output_slices, buffer=buffer, **kwargs
        )
        for row, slot in enumerate(self.token_slots):
            if slot < 0:
                y[row] += held
        return None


class ScalesInput(Plain):
    """It scales the input of a layer where it is."""

    def add_lora_linear(
        self, y: torch.Tensor, x: torch.Tensor, *args: Any, **kwargs: Any
    ) -> torch.Tensor | None:
        """Shrink and expand."""
        x.mul_(2)
        stacks_a, stacks_b, scale, *rest = args
        return super().add_lora_linear(y, x, stacks_a, stacks_b, scale / 2, *rest, **kwargs)


class DoublesHalf(Plain):
    """In bfloat16 its shrink gives twice as much."""

    def shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        stacks: Sequence[torch.Tensor],
        scale: float,
        slots: Sequence[int],
    ) -> torch.Tensor | None:
        """Fill each slice of `y`, by slots."""
        return super().shrink(y, x, stacks, 2 * scale if x.dtype is torch.bfloat16 else scale, slots)
