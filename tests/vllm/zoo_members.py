"""Broken vLLM platforms whose members, picked classes, flags and names are at fault, each beside a right twin."""

from __future__ import annotations

import importlib
from typing import Any

from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import Platform, PlatformEnum

PARTS = "tests.vllm.parts_members"
CPU_BACKEND = "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"
WORKER = "vllm.v1.worker.cpu_worker.CPUWorker"


class Bare(Platform):
    """Calls itself a CPU and has none of the names that the engine reads of its own CPU platform."""

    _enum = PlatformEnum.OOT
    device_name = "chip"
    device_type = "cpu"
    device_control_env_var = "CHIP_VISIBLE_DEVICES"

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        return None

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return CPU_BACKEND

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = WORKER


class BareTwin(CpuPlatform):
    """Has what vLLM's own CPU platform has."""


class OldHook(CpuPlatform):
    @classmethod
    def is_async_output_supported(cls, enforce_eager: bool | None) -> bool:
        return False


class MisspeltHook(CpuPlatform):
    @classmethod
    def get_device_capabilty(cls, device_id: int = 0) -> None:
        return None


class OwnHelpers(CpuPlatform):
    """Has names of its own that are near to no member."""

    @classmethod
    def is_npu(cls) -> bool:
        return True

    @classmethod
    def get_core_names(cls) -> list[str]:
        return ["core 0"]


class _Late:
    @classmethod
    def use_all_gather(cls) -> bool:
        return False


class MixinLast(CpuPlatform, _Late):
    """Puts the mixin after the class that answers first."""


class MixinFirst(_Late, CpuPlatform):
    """Puts the mixin first."""


class SetOnInstance(CpuPlatform):
    """Sets a hook on the instance alone."""

    def __init__(self) -> None:
        self.use_all_gather = _no


def _no() -> bool:
    return False


class ImportsLater(CpuPlatform):
    """Imports a part of the engine for an answer that is asked for while the engine is being imported."""

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        from vllm.distributed import parallel_state

        return parallel_state is None


class Pins(CpuPlatform):
    """Says that memory can be pinned, which torch cannot here."""

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        return True


class PinsNot(CpuPlatform):
    @classmethod
    def is_pin_memory_available(cls) -> bool:
        return False


class UnknownMethod(CpuPlatform):
    """Misspells a quantization method of the engine's."""

    supported_quantization = ["awq", "compressed_tensors"]


class KnownMethods(CpuPlatform):
    supported_quantization = ["awq", "compressed-tensors"]


class AcceptsAnyMethod(CpuPlatform):
    supported_quantization = ["awq"]

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        return None


class CudaNumbers(CpuPlatform):
    """Announces a capability of CUDA."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> Any:
        from vllm.platforms.interface import DeviceCapability

        return DeviceCapability(8, 0)


class NamesUnknown(CpuPlatform):
    """Names a backend that the engine's layers cannot look up."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return f"{PARTS}.NameUnknown"


class NamesCustom(CpuPlatform):
    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return f"{PARTS}.NameCustom"


class BuilderOld(CpuPlatform):
    """Names a backend whose metadata builder has no `common_prefix_len`."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return f"{PARTS}.MetadataOldNamed"


class LoraOld(CpuPlatform):
    """Names a LoRA wrapper whose constructor does not know the LoRA config."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        return f"{PARTS}.LoraOld"


class LoraLater(CpuPlatform):
    """Names a LoRA wrapper that leaves two operations for later."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        return f"{PARTS}.LoraLater"


class LoraNew(CpuPlatform):
    @classmethod
    def get_punica_wrapper(cls) -> str:
        return f"{PARTS}.LoraNew"


class CommunicatorOld(CpuPlatform):
    """Names a communicator whose dispatch takes fewer arguments than the engine passes."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return f"{PARTS}.CommunicatorOld"


class CommunicatorNew(CpuPlatform):
    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return f"{PARTS}.CommunicatorNew"


class NoBackend(CpuPlatform):
    """Names no backend, with a worker of its own whose runner asks for none."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return ""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        chosen = vllm_config.parallel_config.worker_cls
        super().check_and_update_config(vllm_config)
        vllm_config.parallel_config.worker_cls = f"{PARTS}.OwnWorker" if chosen == "auto" else chosen


class NoRay(CpuPlatform):
    """Has devices of its own and no name under which Ray counts them."""

    device_type = "xpu"
    ray_device_key = ""
    device_control_env_var = "CHIP_VISIBLE_DEVICES"


class MainThreadOnly(CpuPlatform):
    """Sets a signal handler, which Python allows in the main thread alone."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        import signal

        signal.signal(signal.SIGUSR2, signal.SIG_IGN)


class NamesLatentPrefill(CpuPlatform):
    """The picker of latent prefill answers with a name, as the other pickers do."""

    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config: Any) -> Any:
        return f"{__name__}.LatentPrefill"


class GivesLatentPrefill(CpuPlatform):
    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config: Any) -> Any:
        module = importlib.import_module("vllm.v1.attention.backends.mla.prefill.base")
        return type("Latent", (module.MLAPrefillBackend,), {})
