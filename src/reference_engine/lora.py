"""Low-rank adapters: the wrapper that the platform picks, and the linear layer that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from platform_abc.components.lora import LoRAMapping, PunicaWrapperBase
from reference_engine.picked import resolve_picked

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig, LoRAConfig


def make_punica_wrapper(config: EngineConfig, lora: LoRAConfig, device: torch.device) -> PunicaWrapperBase:
    """Return the wrapper of the adapter kernels that the platform names.

    Args:
        config: the engine's configuration.
        lora: its adapter part.
        device: where the work happens.

    Raises:
        NotSupported: the platform has none.
        ValueError: what it names is no such wrapper.
    """
    from platforms import current_platform

    chosen = resolve_picked("get_punica_wrapper", current_platform.get_punica_wrapper(), PunicaWrapperBase)
    scheduler = config.scheduler_config
    return chosen(scheduler.max_num_batched_tokens, scheduler.max_num_seqs, device, max_loras=lora.max_loras)


class AdapterSlots(torch.nn.Module):
    """The adapters of one linear layer, one in each slot; an empty slot adds nothing.

    Args:
        wrapper: the platform's kernels.
        lora: the adapter part of the configuration.
        inputs: inputs of the layer.
        outputs: outputs of the layer.
    """

    def __init__(self, wrapper: PunicaWrapperBase, lora: LoRAConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        self.wrapper = wrapper
        self.outputs = outputs
        self.lora_a = torch.zeros(lora.max_loras, lora.max_lora_rank, inputs)
        self.lora_b = torch.zeros(lora.max_loras, outputs, lora.max_lora_rank)

    def set_adapter(self, slot: int, lora_a: torch.Tensor, lora_b: torch.Tensor) -> None:
        """Put an adapter into a slot.

        Args:
            slot: the slot, from 0.
            lora_a: `[rank, inputs]`.
            lora_b: `[outputs, rank]`, its scale included.

        Raises:
            ValueError: the rank is larger than the slot's.
        """
        rank = lora_a.shape[0]
        if rank > self.lora_a.shape[1]:
            raise ValueError(
                f"an adapter of rank {rank} does not fit lora_config.max_lora_rank {self.lora_a.shape[1]}"
            )
        self.lora_a[slot].zero_()
        self.lora_b[slot].zero_()
        self.lora_a[slot, :rank] = lora_a
        self.lora_b[slot, :, :rank] = lora_b

    def forward(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Add to `y` what each token's adapter makes of `x`.

        Args:
            y: `[T, outputs]`, changed in place where the platform can.
            x: `[T, inputs]`.
        """
        from platforms import current_platform

        added = self.wrapper.add_lora_linear(y, x, (self.lora_a,), (self.lora_b,), 1.0, (self.outputs,))
        if current_platform.can_update_inplace():
            return y
        if added is None:
            raise TypeError(
                f"{type(self.wrapper).__name__}.add_lora_linear returned None on a platform that cannot update "
                "tensors in place"
            )
        return added


def map_tokens(wrapper: PunicaWrapperBase, lora: LoRAConfig, num_tokens: int, vocab_size: int) -> None:
    """Tell the wrapper that the tokens of a step use the base model.

    Args:
        wrapper: the platform's kernels.
        lora: the adapter part of the configuration.
        num_tokens: tokens of the step.
        vocab_size: size of the vocabulary.
    """
    mapping = LoRAMapping(index_mapping=[0] * num_tokens, prompt_mapping=[0] * num_tokens)
    wrapper.update_metadata(mapping, [None] * lora.max_loras, lora.max_loras, vocab_size)
