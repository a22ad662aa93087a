"""Workers of the zoo: two that are right in a way of their own, and one for each mistake."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch

from platform_abc.components.worker import ModelBuilder, StepOutput, StepRequest
from platforms.components.worker import DeviceWorker as Base


class Copies(Base):
    """Loads with a whole copy of the config at hand, in which it changes what it likes."""

    def load_model(self, build: ModelBuilder | None = None) -> None:
        """Build the model."""
        own = copy.deepcopy(self.vllm_config)
        assert own.model_config is not None
        own.model_config.dtype = torch.bfloat16
        super().load_model(build)


class OneByOne(Base):
    """Runs the requests of a step one after the other."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        found: dict[str, int] = {}
        for request in requests:
            found.update(super().execute_model([request]).next_token_ids)
        return StepOutput(next_token_ids=found)


class SpecsByNumber(Base):
    """Names its layers by their numbers."""

    def get_kv_cache_spec(self) -> Mapping[str, Any]:
        """Return what each layer stores."""
        return {str(number): one for number, one in enumerate(super().get_kv_cache_spec().values())}


class NeedsPorts(Base):
    """Wants a place where ranks meet, also when it is alone."""

    def init_device(self) -> None:
        """Choose the device."""
        int(self.distributed_init_method.rpartition(":")[2])
        super().init_device()


class ChangesConfig(Base):
    """Its loader sets the dtype that it wants in the live config."""

    def load_model(self, build: ModelBuilder | None = None) -> None:
        """Build the model."""
        super().load_model(build)
        assert self.vllm_config.model_config is not None
        self.vllm_config.model_config.dtype = torch.bfloat16


class TakesAll(Base):
    """Gives the whole memory of the device for the cache."""

    def determine_available_memory(self) -> int:
        """Return the bytes for the cache."""
        return self.platform.get_device_total_memory(0)


class CountsGib(Base):
    """Gives the memory for the cache in GiB."""

    def determine_available_memory(self) -> int:
        """Return the size of the cache."""
        return max(1, super().determine_available_memory() >> 30)


class NamesMixed(Base):
    """The tokens of a batch are given to the requests in reverse."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        found = super().execute_model(requests).next_token_ids
        return StepOutput(next_token_ids=dict(zip(found, list(found.values())[::-1], strict=True)))


class LastLeftOut(Base):
    """A prefill runs without its last token."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        shorter = [
            attrs.evolve(one, token_ids=one.token_ids[:-1]) if len(one.token_ids) > 1 else one
            for one in requests
        ]
        return super().execute_model(shorter)


class PlacesShifted(Base):
    """A decode step counts one token less before it."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        shifted = [
            attrs.evolve(one, num_computed_tokens=max(0, one.num_computed_tokens - 1))
            if len(one.token_ids) == 1
            else one
            for one in requests
        ]
        return super().execute_model(shifted)


class ChunksAlone(Base):
    """A chunk of a prompt is run as if it were the start of it."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        apart = [
            attrs.evolve(one, num_computed_tokens=0) if len(one.token_ids) > 1 else one for one in requests
        ]
        return super().execute_model(apart)


KEPT: list[Any] = []
"""What `Keeps` has run."""


class Keeps(Base):
    """Its module holds every model that it has loaded."""

    def load_model(self, build: ModelBuilder | None = None) -> None:
        """Build the model."""
        super().load_model(build)
        KEPT.append(self.get_model())


class LeavesLayers(Base):
    """It does nothing when it is closed."""

    def shutdown(self) -> None:
        """Leave all as it is."""


class IgnoresShare(Base):
    """It takes nine tenths of the memory, whatever share the user gives."""

    def determine_available_memory(self) -> int:
        """Return the bytes for the cache."""
        given = self.cache_config.kv_cache_memory_bytes
        return self.platform.get_device_total_memory(0) // 10 * 8 if given is None else given


class IgnoresBytes(Base):
    """It measures, whatever number of bytes the user gives."""

    def determine_available_memory(self) -> int:
        """Return the bytes for the cache."""
        given, self.cache_config.kv_cache_memory_bytes = self.cache_config.kv_cache_memory_bytes, None
        try:
            return super().determine_available_memory()
        finally:
            self.cache_config.kv_cache_memory_bytes = given


class RemembersBlocks(Base):
    """It keeps the blocks that a request had first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known: dict[str, tuple[int, ...]] = {}

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        kept: list[StepRequest] = []
        for one in requests:
            old = self.known.get(one.request_id, ())
            blocks = (*old, *tuple(one.block_ids)[len(old) :])
            self.known[one.request_id] = blocks
            kept.append(attrs.evolve(one, block_ids=blocks))
        return super().execute_model(kept)


class CopiesCaches(Base):
    """It gives copies of its caches."""

    def get_kv_caches(self) -> Mapping[str, torch.Tensor]:
        """Return the cache of each layer."""
        return {name: one.clone() for name, one in super().get_kv_caches().items()}


class EightRequests(Base):
    """It answers eight requests of a step, and repeats itself for the others."""

    def execute_model(self, requests: Sequence[StepRequest]) -> StepOutput:
        """Run one step."""
        found = dict(super().execute_model(requests).next_token_ids)
        names = list(found)
        return StepOutput(next_token_ids={name: found[names[place % 8]] for place, name in enumerate(names)})
