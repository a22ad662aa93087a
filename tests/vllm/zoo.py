"""Broken vLLM platforms, each beside a correct twin that does the same thing right.

Every class derives from vLLM's CPU platform, so that nothing but the seeded fault differs from a
platform that runs. Names of pairs: `Xyz` and `XyzTwin`.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import PlatformEnum

ATTENTION = "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"
COMMUNICATOR = "vllm.distributed.device_communicators.cpu_communicator.CpuCommunicator"
LORA = "vllm.lora.punica_wrapper.punica_cpu.PunicaWrapperCPU"
WORKER = "vllm.v1.worker.cpu_worker.CPUWorker"


class Good(CpuPlatform):
    """A platform that only gives itself a name."""


# ------------------------------------------------------------------------------------ signatures


class AttentionWithoutHeads(CpuPlatform):
    """The attention picker of an older vLLM, without `num_heads`."""

    @classmethod
    def get_attn_backend_cls(cls, selected_backend: Any, attn_selector_config: Any) -> str:
        return ATTENTION


class AttentionWithoutHeadsTwin(CpuPlatform):
    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return ATTENTION


class RequestInOldOrder(CpuPlatform):
    """Request validation of an older vLLM: three parameters, the prompt first."""

    @classmethod
    def validate_request(cls, prompt: Any, params: Any, processed_inputs: Any) -> None:
        return None


class RequestInOldOrderTwin(CpuPlatform):
    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        return None


class RequestSwapped(CpuPlatform):
    """Request validation with its two parameters exchanged."""

    @classmethod
    def validate_request(cls, params: Any, processed_inputs: Any) -> None:
        return None


class InstanceMethod(CpuPlatform):
    """A hook without the classmethod decorator: a call on the class shifts its arguments."""

    def get_attn_backend_cls(
        self, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return ATTENTION


class DeviceTypeProperty(CpuPlatform):
    """A name that the engine reads on the class, made a property."""

    @property
    def device_type(self) -> str:  # type: ignore[override]
        return "cpu"


class DeviceTypePropertyTwin(CpuPlatform):
    device_type: str = "cpu"


class DeviceTypeBogus(CpuPlatform):
    """A device type that torch does not know."""

    device_type: str = "myd"


class KindUnspecified(CpuPlatform):
    """The kind that stands for "no device was found"."""

    _enum = PlatformEnum.UNSPECIFIED


# ------------------------------------------------------------------------------------- pickers


class AttentionEmpty(CpuPlatform):
    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return ""


class AttentionNone(CpuPlatform):
    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> Any:
        return None


class AttentionNoBackend(CpuPlatform):
    """The attention picker names a class that is no attention backend."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        return WORKER


class CommunicatorBadName(CpuPlatform):
    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "vllm.distributed.device_communicators.nope.NopeCommunicator"


class CommunicatorBadNameTwin(CpuPlatform):
    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return COMMUNICATOR


class LoraRaises(CpuPlatform):
    """The LoRA picker fails instead of declaring that it is not supported."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        raise RuntimeError("no LoRA here")


class LoraRaisesTwin(CpuPlatform):
    @classmethod
    def get_punica_wrapper(cls) -> str:
        raise NotImplementedError("no LoRA here")


class WorkerBadName(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = "vllm.v1.worker.nope.NopeWorker"
        super().check_and_update_config(vllm_config)


class WorkerNoWorker(CpuPlatform):
    """The config hook names a class that is no worker."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = ATTENTION
        super().check_and_update_config(vllm_config)


class WorkerTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        chosen = vllm_config.parallel_config.worker_cls
        super().check_and_update_config(vllm_config)
        vllm_config.parallel_config.worker_cls = WORKER if chosen == "auto" else chosen


# -------------------------------------------------------------------------------- config hooks


class WorkerAuto(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        chosen = vllm_config.parallel_config.worker_cls
        super().check_and_update_config(vllm_config)
        vllm_config.parallel_config.worker_cls = chosen


class WorkerOverwritten(CpuPlatform):
    """The hook replaces a worker that the user chose."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.parallel_config.worker_cls = WORKER


class BlockSizeOverwritten(CpuPlatform):
    """The hook replaces a block size that the user chose."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.cache_config.block_size = 128


class BlockSizeTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 128


class ModelNoneCrash(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        assert vllm_config.model_config.model


class ModelNoneTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        assert vllm_config.model_config is None or vllm_config.model_config.model


class GrowingValue(CpuPlatform):
    """The hook adds to what it finds, and the engine core runs it on what it left."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.max_num_seqs += 1


class GrowingValueTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.max_num_seqs = max(vllm_config.scheduler_config.max_num_seqs, 8)


class GrowingDefaults(CpuPlatform):
    """The defaults hook appends to a list each time."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        vllm_config.compilation_config.custom_ops.append("+rms_norm")


class GrowingDefaultsTwin(CpuPlatform):
    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        if "+rms_norm" not in vllm_config.compilation_config.custom_ops:
            vllm_config.compilation_config.custom_ops.append("+rms_norm")


class SecondCallRaises(CpuPlatform):
    """The hook refuses the config that it has itself updated; the engine core then hangs for ever."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        if vllm_config.parallel_config.worker_cls == WORKER:
            raise ValueError("worker_cls must not be set")
        super().check_and_update_config(vllm_config)


class ClassState(CpuPlatform):
    """The hook keeps the config on the class, where a spawned worker does not find it."""

    _config: ClassVar[Any] = None

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        cls._config = vllm_config


class ClassStateTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.additional_config["seen"] = True


class ConfigWithLock(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.additional_config["lock"] = threading.Lock()


class ConfigWithLambda(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.additional_config["scale"] = lambda value: value * 2


class NonsenseValue(CpuPlatform):
    """The hook writes a text where the config declares a number."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = "large"


class PreRegisterRaises(CpuPlatform):
    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        raise RuntimeError("cannot register")


class PreRegisterNeedsParser(CpuPlatform):
    """The hook uses a parser that config creation does not pass."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        parser.set_defaults(block_size=32)


class PreRegisterTwin(CpuPlatform):
    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        if parser is not None:
            parser.set_defaults(block_size=32)


# ------------------------------------------------------------------------- hooks of every run


class ImportKernelsRaises(CpuPlatform):
    @classmethod
    def import_kernels(cls) -> None:
        raise ImportError("libkernels.so: cannot open shared object file")


class ImportKernelsTwin(CpuPlatform):
    @classmethod
    def import_kernels(cls) -> None:
        return None


class ImportIrKernelsRaises(CpuPlatform):
    @classmethod
    def import_ir_kernels(cls) -> None:
        raise RuntimeError("no kernels")


class LogWarningsRaises(CpuPlatform):
    @classmethod
    def log_warnings(cls) -> None:
        raise RuntimeError("cannot log")


class SeedNotImplemented(CpuPlatform):
    """The seed hook declines, and every run calls it without a guard."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        raise NotImplementedError


class SeedRaises(CpuPlatform):
    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        raise RuntimeError(f"cannot seed {seed}")


class SeedTwin(CpuPlatform):
    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        return None


class MemoryRaises(CpuPlatform):
    """The engine tolerates this one, in silence, and plans with too little memory."""

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        raise RuntimeError("no memory")


class NameRaises(CpuPlatform):
    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        raise RuntimeError("no name")


class CacheSpecsRaise(CpuPlatform):
    @classmethod
    def register_custom_kv_cache_specs(cls, vllm_config: Any) -> None:
        raise RuntimeError("no specs")


class BlockSizeHookRaises(CpuPlatform):
    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        raise RuntimeError("no block size")


class ValidateRequestRaises(CpuPlatform):
    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        raise AttributeError("'dict' object has no attribute 'prompt_token_ids'")


class CrashesInHook(CpuPlatform):
    """A hook that takes the process with it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        import os

        os._exit(0)


class HangsInHook(CpuPlatform):
    """A hook that never returns."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        import time

        time.sleep(3600)
