"""Low-rank adapters: the wrapper that the platform picks, the slots of each layer, and which adapter is where.

A layer asks the wrapper only while one of its slots is filled: a wrapper need not know how to change what no
adapter changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import torch

from platform_abc.components.lora import LoRAMapping, PunicaWrapperBase
from platform_abc.errors import ConfigError
from platform_abc.picked import resolve_picked
from reference_model.adapter_folder import Adapter, read_adapter

if TYPE_CHECKING:
    from platform_abc.components.worker import StepDetails
    from platform_abc.config import EngineConfig, LoRAConfig
    from reference_model.linear import Embedding, Head, Linear, Part


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

    chosen = resolve_picked(
        "get_punica_wrapper", current_platform.get_punica_wrapper(), PunicaWrapperBase, current_platform
    )
    scheduler = config.scheduler_config
    return chosen(scheduler.max_num_batched_tokens, scheduler.max_num_seqs, device, max_loras=lora.max_loras)


class AdapterSlots(torch.nn.Module):
    """The adapters of one layer, one in each slot; an empty slot adds nothing.

    Args:
        wrapper: the platform's kernels.
        lora: the adapter part of the configuration.
        inputs: inputs of the layer.
        outputs: outputs of each projection that the layer holds side by side.
        dtype: of adapter weights.
        device: where they are.
    """

    def __init__(
        self,
        wrapper: PunicaWrapperBase,
        lora: LoRAConfig,
        inputs: int,
        outputs: Sequence[int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self.wrapper = wrapper
        self.outputs = tuple(outputs)
        slots, rank = lora.max_loras, lora.max_lora_rank
        self.lora_a = tuple(torch.zeros(slots, rank, inputs, dtype=dtype, device=device) for _ in outputs)
        self.lora_b = tuple(torch.zeros(slots, out, rank, dtype=dtype, device=device) for out in outputs)
        self.filled: set[tuple[int, int]] = set()
        # Of each token of the step; its memory stays, as a captured graph reads it.
        self.token_slots: torch.Tensor | None = None

    def set_adapter(self, slot: int, lora_a: torch.Tensor, lora_b: torch.Tensor, index: int = 0) -> None:
        """Put an adapter into a slot.

        Args:
            slot: the slot, from 0.
            lora_a: `[rank, inputs]`.
            lora_b: `[outputs, rank]`, its scale included; rows of this rank, the first ones.
            index: which of the layer's projections.
        """
        rank = lora_a.shape[0]
        self.clear(slot, index)
        self.lora_a[index][slot, :rank] = lora_a
        self.lora_b[index][slot, : lora_b.shape[0], :rank] = lora_b
        self.filled.add((slot, index))

    def clear(self, slot: int, index: int = 0) -> None:
        """Empty a slot of one projection."""
        self.lora_a[index][slot].zero_()
        self.lora_b[index][slot].zero_()
        self.filled.discard((slot, index))

    def forward(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Add to `y` what each token's adapter makes of `x`.

        Args:
            y: `[T, sum of outputs]`, changed in place where the platform can.
            x: `[T, inputs]`.
        """
        if not self.filled:
            return y
        added = self.wrapper.add_lora_linear(y, x, self.lora_a, self.lora_b, 1.0, self.outputs)
        return self._changed("add_lora_linear", y, added)

    def embed(self, y: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
        """Add to embeddings what each token's adapter knows of the token.

        Args:
            y: `[T, width]`, changed in place where the platform can.
            token_ids: int64 `[T]`.
        """
        if not self.filled or self.token_slots is None:
            return y
        rows = self.lora_a[0][self.token_slots[: token_ids.shape[0]], :, token_ids]
        return self._changed(
            "add_lora_embedding", y, self.wrapper.add_lora_embedding(y, rows, self.lora_b[0])
        )

    def score(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Add to logits what each row's adapter makes of the states.

        Args:
            y: `[rows, vocabulary of this rank]`, changed in place where the platform can.
            x: `[rows, width]`.
        """
        if not self.filled:
            return y
        added = self.wrapper.add_lora_logits(y, x, self.lora_a[0], self.lora_b[0], 1.0)
        return self._changed("add_lora_logits", y, added)

    def _changed(self, method: str, y: torch.Tensor, answer: torch.Tensor | None) -> torch.Tensor:
        from platforms import current_platform

        if current_platform.can_update_inplace():
            return y
        if answer is None:
            raise TypeError(
                f"{type(self.wrapper).__name__}.{method} returned None on a platform that cannot update "
                "tensors in place"
            )
        return answer


@attrs.frozen
class Target:
    """One projection that an adapter may change.

    Args:
        slots: of the layer.
        index: which of the layer's projections.
        part: that one.
    """

    slots: AdapterSlots
    index: int
    part: Part

    def put(self, slot: int, pair: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        """Put this rank's part of an adapter into a slot; None empties it."""
        if pair is None:
            self.slots.clear(slot, self.index)
            return
        lora_a, lora_b = pair
        cut = self.part.cut
        if cut is not None and cut.dim == 0:
            lora_b = lora_b.narrow(0, cut.start, cut.length)
        elif cut is not None:
            lora_a = lora_a.narrow(1, cut.start, cut.length)
        self.slots.set_adapter(slot, lora_a, lora_b, self.index)


class Adapters:
    """The adapters of a model, of which a step's own are in slots. Requests name them by numbers from 1.

    Args:
        config: the engine's configuration; its `lora_config` is set.
        layers: of the model; those that may take adapters get slots.
        vocab_size: size of the vocabulary.
        dtype: of the model.
        device: where tokens are.

    Raises:
        ConfigError: an adapter's folder cannot be read, or does not fit the model.
        NotSupported: the platform has no kernels for adapters.
    """

    def __init__(
        self,
        config: EngineConfig,
        layers: Iterable[Linear | Embedding | Head],
        vocab_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        lora = config.lora_config
        assert lora is not None
        self.lora, self.vocab_size, self.device = lora, vocab_size, device
        self.wrapper = make_punica_wrapper(config, lora, device)
        named = lora.lora_dtype
        kept = (dtype if named == "auto" else getattr(torch, named)) if isinstance(named, str) else named
        self.targets: dict[str, Target] = {}
        for layer in layers:
            ends = {part.name.rpartition(".")[2] for part in layer.parts}
            if lora.target_modules is None or not ends.isdisjoint(lora.target_modules):
                layer.adapters = AdapterSlots(self.wrapper, lora, layer.inputs, layer.outputs, kept, device)
                for index, part in enumerate(layer.parts):
                    self.targets[part.name] = Target(layer.adapters, index, part)
        self.known = [read_adapter(Path(folder)) for folder in lora.lora_modules]
        for adapter in self.known:
            self._check(adapter)
        self.slots: list[int | None] = [None] * lora.max_loras
        # The least recently used first.
        self.order = list(range(lora.max_loras))

    @property
    def filled(self) -> bool:
        """Whether an adapter is in a slot, so that layers do more than the base model."""
        return any(number is not None for number in self.slots)

    def _check(self, adapter: Adapter) -> None:
        for name, (lora_a, lora_b) in adapter.pairs.items():
            target, rank = self.targets.get(name), lora_a.shape[0]
            if target is None:
                raise ConfigError(
                    f"{adapter.name}: the model has no projection {name!r} that takes an adapter"
                )
            found = (tuple(lora_a.shape), tuple(lora_b.shape))
            expected = ((rank, target.part.inputs), (target.part.outputs, rank))
            if found != expected:
                raise ConfigError(
                    f"{adapter.name}: {name} has the shapes {found[0]} and {found[1]}, expected "
                    f"{expected[0]} and {expected[1]}"
                )
            if rank > self.lora.max_lora_rank:
                raise ConfigError(
                    f"{adapter.name}: rank {rank} is larger than lora_config.max_lora_rank "
                    f"{self.lora.max_lora_rank}"
                )

    def prepare(self, num_tokens: int, details: StepDetails | None) -> None:
        """Put the adapters of a step into slots, and tell the wrapper which token uses which.

        Args:
            num_tokens: tokens of the step.
            details: of the step; None for the base model.

        Raises:
            ValueError: there are more adapters in the step than slots.
        """
        ids = list(details.lora_ids) if details is not None and details.lora_ids else [0] * num_tokens
        rows = None if details is None else details.logit_rows
        self._place(sorted(set(ids) - {0}))
        mapping = LoRAMapping(
            index_mapping=ids, prompt_mapping=ids if rows is None else [ids[row] for row in rows]
        )
        self.wrapper.update_metadata(mapping, self.slots, self.lora.max_loras, self.vocab_size)
        embedding = self.targets.get("model.embed_tokens")
        if embedding is not None:
            # A token without an adapter reads any slot: the wrapper leaves it alone.
            where = {number: slot for slot, number in enumerate(self.slots) if number is not None}
            found = torch.tensor([where.get(number, 0) for number in ids], device=self.device)
            if embedding.slots.token_slots is None or len(ids) > embedding.slots.token_slots.shape[0]:
                most = max(len(ids), self.wrapper.max_num_batched_tokens)
                embedding.slots.token_slots = torch.zeros(most, dtype=torch.int64, device=self.device)
            embedding.slots.token_slots[: len(ids)].copy_(found)

    def _place(self, needed: Sequence[int]) -> None:
        if len(needed) > len(self.slots):
            raise ValueError(
                f"{len(needed)} adapters in one step, but lora_config.max_loras is {len(self.slots)}"
            )
        for number in needed:
            if number not in self.slots:
                slot = next(slot for slot in self.order if self.slots[slot] not in needed)
                pairs = self.known[number - 1].pairs
                for name, target in self.targets.items():
                    target.put(slot, pairs.get(name))
                self.slots[slot] = number
            used = self.slots.index(number)
            self.order.remove(used)
            self.order.append(used)
