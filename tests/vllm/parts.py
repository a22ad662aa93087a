"""Classes that the platforms of `zoo_reported` name."""

from __future__ import annotations

from typing import Any

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend


class NameUnknown(CPUAttentionBackend):
    """A backend with a name of its own, which the engine cannot look up."""

    @staticmethod
    def get_name() -> str:
        return "CHIP_ATTN"


class LoraOld(PunicaWrapperCPU):
    """A LoRA wrapper whose constructor knows no other options."""

    def __init__(self, max_num_batched_tokens: int, max_batches: int, device: Any) -> None:
        super().__init__(max_num_batched_tokens, max_batches, device)


class CommunicatorOld(CpuCommunicator):
    """A communicator whose all-gather knows no dimension."""

    def all_gather(self, input_: Any) -> Any:
        return super().all_gather(input_)
