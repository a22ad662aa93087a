"""Component classes over vLLM's own, each with one fault that its name does not show, and right ones."""

from __future__ import annotations

from typing import Any

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionMetadataBuilder
from vllm.v1.worker.worker_base import WorkerBase


class NameUnknown(CPUAttentionBackend):
    @staticmethod
    def get_name() -> str:
        return "CHIP_ATTN"


class NameCustom(CPUAttentionBackend):
    @staticmethod
    def get_name() -> str:
        return "CUSTOM"


class MetadataOld(CPUAttentionMetadataBuilder):
    def build(self, common_attn_metadata: Any) -> Any:  # type: ignore[override]
        return None


class MetadataOldNamed(CPUAttentionBackend):
    @staticmethod
    def get_builder_cls() -> Any:
        return MetadataOld


class LoraOld(PunicaWrapperCPU):
    def __init__(self, max_num_batched_tokens: int, max_batches: int, device: Any) -> None:
        super().__init__(max_num_batched_tokens, max_batches, device)


class LoraNew(PunicaWrapperCPU):
    def __init__(self, max_num_batched_tokens: int, max_batches: int, device: Any, **kwargs: Any) -> None:
        super().__init__(max_num_batched_tokens, max_batches, device, **kwargs)


class LoraLater(PunicaWrapperCPU):
    """Leaves two operations for later."""

    def add_lora_embedding(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def add_lora_logits(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class CommunicatorOld(CpuCommunicator):
    def dispatch(self, hidden_states: Any, router_logits: Any) -> Any:  # type: ignore[override]
        return hidden_states, router_logits


class CommunicatorNew(CpuCommunicator):
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(*args, **kwargs)


class OwnWorker(WorkerBase):
    """A worker that takes nothing but the base from the engine."""

    def init_device(self) -> None:
        return None

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        return None

    def get_kv_cache_spec(self) -> Any:
        return {}

    def execute_model(self, scheduler_output: Any) -> Any:
        return None
