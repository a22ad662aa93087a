"""Component classes that the zoo's platforms name: good ones, and each of them with one fault."""

from __future__ import annotations

from typing import Any

from platform_abc.components.compile import DefaultPassManager
from platform_abc.components.graph import StaticGraphWrapper
from platform_abc.components.kv_cache import DefaultKVCacheConfigBuilder
from platform_abc.components.lora import PunicaWrapperBase
from platforms.components.attention import TorchSdpaBackend
from platforms.components.communicator import TorchDistributedCommunicator
from platforms.components.worker import DeviceWorker
from tests.mutants.lora_parts import Plain

NOT_A_CLASS = "text where a class should be"


class Worker(DeviceWorker):
    """A worker of the vendor's own."""


NOTE: dict[str, bool] = {}
"""What a hook leaves for `NeedsNote`, in this process only."""


class NeedsNote(DeviceWorker):
    """A worker that reads what a config hook has left in its module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.ready = NOTE["ready"]
        super().__init__(*args, **kwargs)


class Wide(TorchSdpaBackend):
    """A backend whose kernels take blocks of 64 tokens and multiples of them."""

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[Any]:
        """Return the one size."""
        return [64]


class Backend(TorchSdpaBackend):
    """An attention backend of the vendor's own."""


class Communicator(TorchDistributedCommunicator):
    """A communicator of the vendor's own."""


class Builder(DefaultKVCacheConfigBuilder):
    """A KV-cache planner of the vendor's own."""


class Passes(DefaultPassManager):
    """A pass manager of the vendor's own."""


class Graphs(StaticGraphWrapper):
    """A graph wrapper that runs the callable as it is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run what is wrapped."""
        return self.unwrap()(*args, **kwargs)


class Lora(Plain):
    """A LoRA wrapper with all its operations."""


class LoraWithoutLogits(PunicaWrapperBase):
    """A LoRA wrapper that never got the operations which the base added later."""

    def add_shrink(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing."""

    def add_expand(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing."""


class Unrelated:
    """A class of no base, with a name and nothing else."""

    @staticmethod
    def get_name() -> str:
        """Return a name."""
        return "CHIP"


class HalfBackend(TorchSdpaBackend):
    """A backend that takes back one of the names that the engine asks for."""

    get_builder_cls = None  # type: ignore[assignment]  # the fault
