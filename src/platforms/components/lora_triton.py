"""The LoRA wrapper in Triton: two kernels, in which each token finds the matrices of its own slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from platforms.components.lora_torch import TorchPunicaWrapper
from platforms.components.triton_launch import ceiling, kernel, power_of_two

if TYPE_CHECKING:
    import torch


class TritonPunicaWrapper(TorchPunicaWrapper):
    """Applies the adapters of a step in two kernels for each slice, however many adapters there are.

    The slots are read on the device, so a captured step follows the mapping of the step that replays it.
    """

    def in_use(self, rows: int, *, logits: bool) -> bool:
        """Say yes: a captured step must hold the kernels, also where the capture used no adapter.

        Args:
            rows: how many.
            logits: of rows of logits; else of tokens.
        """
        del rows, logits
        return True

    def _shrink(
        self, y: torch.Tensor, x: torch.Tensor, lora_a: Sequence[torch.Tensor], scale: float, *, logits: bool
    ) -> torch.Tensor:
        slots = self.tensor(x.shape[0], logits=logits)
        for piece, weights in enumerate(lora_a):
            rank = weights.shape[1]
            tile = min(32, power_of_two(rank))
            if y[piece].numel() == 0:
                continue
            kernel("lora", "shrink")[(x.shape[0], ceiling(rank, tile))](
                y[piece],
                x,
                weights,
                slots,
                scale,
                x.shape[1],
                *y[piece].stride(),
                *x.stride(),
                *weights.stride(),
                RANK=rank,
                RANK_TILE=tile,
                TILE=min(256, power_of_two(max(1, x.shape[1]))),
            )
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
        slots, first = self.tensor(x.shape[1], logits=logits), offset
        for piece, weights in enumerate(lora_b):
            outputs, rank = weights.shape[1], weights.shape[2]
            columns = y[:, first : first + outputs]
            first += outputs
            if columns.numel() == 0 or rank == 0:
                continue
            padded = power_of_two(rank)
            tile = min(power_of_two(outputs), max(16, 4096 // padded))
            kernel("lora", "expand")[(x.shape[1], ceiling(outputs, tile))](
                columns,
                x[piece],
                weights,
                slots,
                outputs,
                *columns.stride(),
                *x[piece].stride(),
                *weights.stride(),
                RANK=rank,
                PADDED_RANK=padded,
                TILE=tile,
                ADD=add,
            )
        return y
