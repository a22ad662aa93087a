"""The LoRA wrapper in plain torch: one pair of matrix products for each adapter that a step uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from platforms.components.lora_slots import SlotWrapper, check_slices

if TYPE_CHECKING:
    import torch


class TorchPunicaWrapper(SlotWrapper):
    """Applies the adapters of a step, slot by slot; products are taken in float32.

    A call costs as many products as adapters are in use, and nothing where none is.
    """

    def add_shrink(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: Sequence[torch.Tensor],
        scale: float,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Compute `y[i] = (x @ lora_a[i].T) * scale` for each slice `i`; rows without an adapter are zero.

        Args:
            y: float32 `[slices, T, R]`.
            x: `[T, inputs]`.
            lora_a_stacked: one `[S, R, inputs]` for each slice.
            scale: factor of the product.
            **kwargs: ignored.

        Returns:
            The filled tensor.
        """
        del kwargs
        self.check_slots(lora_a_stacked)
        return self._shrink(self.target(y), x, lora_a_stacked, scale, logits=False)

    def add_expand(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_b_stacked: Sequence[torch.Tensor],
        output_slices: Sequence[int],
        offset_start: int = 0,
        add_inputs: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Add `x[i] @ lora_b[i].T` to the slice `i` of `y`; rows without an adapter do not change.

        Args:
            y: `[T, outputs]`.
            x: `[slices, T, R]`.
            lora_b_stacked: one `[S, outputs of the slice, R]` for each slice.
            output_slices: outputs of each slice.
            offset_start: first column of the first slice.
            add_inputs: add to `y`; False overwrites.
            **kwargs: ignored.

        Returns:
            The changed tensor.

        Raises:
            ValueError: the slices do not fit `y`.
        """
        del kwargs
        self.check_slots(lora_b_stacked)
        check_slices(y, lora_b_stacked, output_slices, offset_start)
        return self._expand(self.target(y), x, lora_b_stacked, offset_start, add=add_inputs, logits=False)

    def add_lora_embedding(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_b_stacked: torch.Tensor,
        add_inputs: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Add `x @ lora_b.T` to an embedding.

        Args:
            y: `[T, hidden]`.
            x: `[T, R]`, rows of the adapter's embedding.
            lora_b_stacked: `[S, hidden, R]`.
            add_inputs: add to `y`; False overwrites.
            **kwargs: ignored.

        Returns:
            The changed tensor.

        Raises:
            ValueError: the weights do not fit `y`.
        """
        outputs = [lora_b_stacked.shape[1]]
        return self.add_expand(y, x.unsqueeze(0), (lora_b_stacked,), outputs, add_inputs=add_inputs, **kwargs)

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
    ) -> torch.Tensor:
        """Add `(x @ lora_a[i].T) @ lora_b[i].T * scale` to the slice `i` of `y`.

        Args:
            y: `[…, outputs]`.
            x: `[…, inputs]`, with as many rows.
            lora_a_stacked: one `[S, R, inputs]` for each slice.
            lora_b_stacked: one `[S, outputs of the slice, R]` for each slice.
            scale: factor of the product.
            output_slices: outputs of each slice.
            buffer: float32 `[slices, T, R]` to be used in between; None allocates.
            **kwargs: ignored.

        Returns:
            The changed tensor.

        Raises:
            ValueError: the slices do not fit `y`, or the buffer has another shape.
        """
        del kwargs
        check_slices(y, lora_b_stacked, output_slices)
        return self._linear(y, x, lora_a_stacked, lora_b_stacked, scale, buffer, logits=False)

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
    ) -> torch.Tensor:
        """Add `(x @ lora_a.T) @ lora_b.T * scale` to logits, by the slots of the rows of logits.

        Args:
            y: `[rows, vocabulary]`.
            x: `[rows, hidden]`.
            lora_a_stacked: `[S, R, hidden]`.
            lora_b_stacked: `[S, vocabulary, R]`, or fewer columns, which then are the first.
            scale: factor of the product.
            buffer: float32 `[rows, R]` to be used in between; None allocates.
            **kwargs: ignored.

        Returns:
            The changed tensor.

        Raises:
            ValueError: the weights do not fit `y`, or the buffer has another shape.
        """
        del kwargs
        check_slices(y, (lora_b_stacked,), (lora_b_stacked.shape[1],))
        one = None if buffer is None else buffer.unsqueeze(0)
        return self._linear(y, x, (lora_a_stacked,), (lora_b_stacked,), scale, one, logits=True)

    def _linear(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a: Sequence[torch.Tensor],
        lora_b: Sequence[torch.Tensor],
        scale: float,
        buffer: torch.Tensor | None,
        *,
        logits: bool,
    ) -> torch.Tensor:
        self.check_slots((*lora_a, *lora_b))
        result = self.target(y)
        rows = x.reshape(-1, x.shape[-1])
        shape = (len(lora_a), rows.shape[0], lora_a[0].shape[1])
        between = self.between(buffer, shape)
        if not self.in_use(rows.shape[0], logits=logits):
            return result
        between = self._shrink(between, rows, lora_a, scale, logits=logits)
        flat = result.reshape(-1, y.shape[-1])
        self._expand(flat, between, lora_b, 0, add=True, logits=logits)
        if flat.data_ptr() != result.data_ptr():
            # The rows of `y` do not lie as rows of one matrix, so a copy was changed.
            result.copy_(flat.view(y.shape))
        return result

    def in_use(self, rows: int, *, logits: bool) -> bool:
        """Say whether any of the first rows uses an adapter.

        Args:
            rows: how many.
            logits: of rows of logits; else of tokens.
        """
        return bool(self.groups(rows, logits=logits))

    def _shrink(
        self, y: torch.Tensor, x: torch.Tensor, lora_a: Sequence[torch.Tensor], scale: float, *, logits: bool
    ) -> torch.Tensor:
        y.zero_()
        for slot, rows in self.groups(x.shape[0], logits=logits):
            chosen = x[rows].float()
            for piece, weights in enumerate(lora_a):
                product = chosen @ weights[slot].float().t() * scale
                y[piece, rows] = product.to(y.dtype)
        return y

    def _expand(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_b: Sequence[torch.Tensor],
        offset: int,
        *,
        add: bool,
        logits: bool,
    ) -> torch.Tensor:
        for slot, rows in self.groups(x.shape[1], logits=logits):
            first = offset
            for piece, weights in enumerate(lora_b):
                columns = y[:, first : first + weights.shape[1]]
                product = x[piece, rows].float() @ weights[slot].float().t()
                columns[rows] = (columns[rows].float() + product if add else product).to(y.dtype)
                first += weights.shape[1]
        return y
