"""A class that inherits nothing satisfies a Protocol by its members, and fails by a wrong or missing one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from platform_abc import (
    CapabilitiesLike,
    ConfigHooksLike,
    CpuArchEnum,
    Identity,
    IdentityLike,
    KernelHooksLike,
    PickersLike,
    Platform,
    PlatformEnum,
    PlatformLike,
    TorchNamesLike,
)
from platform_abc.capabilities import CapabilitiesV2Like
from platform_abc.device import Device, DeviceLike, DeviceV2Like
from platform_abc.pickers import PickersV2Like


class Config:
    block_size = 16


class Selector:
    head_size = 64


class PlainIdentity:
    """Its own enum, tuples for lists, a static and a class method: all of that is allowed."""

    _enum = "npu"
    device_name: str = "npu"
    device_type = "npu"
    dispatch_key = "PrivateUse1"
    ray_device_key = "NPU"
    device_control_env_var = "NPU_VISIBLE_DEVICES"
    ray_noset_device_env_vars: tuple[str, ...] = ()
    simple_compile_backend = "inductor"
    dist_backend = "hccl"
    supported_quantization = ("fp8",)
    additional_env_vars: list[str] = []

    def is_cuda(self) -> bool:
        return False

    def is_rocm(self) -> bool:
        return False

    def is_tpu(self) -> bool:
        return False

    def is_xpu(self) -> bool:
        return False

    def is_cpu(self) -> bool:
        return False

    @staticmethod
    def is_zen_cpu() -> bool:
        return False

    @classmethod
    def is_out_of_tree(cls) -> bool:
        return True

    def is_unspecified(self) -> bool:
        return False

    def is_cuda_alike(self) -> bool:
        return False

    def uses_host_device_handling(self) -> bool:
        return False

    @classmethod
    def get_cpu_architecture(cls) -> CpuArchEnum:
        return CpuArchEnum.ARM


class WithoutDistBackend:
    """Lacks most of the identity."""

    device_name = "npu"


class NumberAsName(PlainIdentity):
    def is_cuda(self) -> int:  # E: mp
        return 0


class PlainHooks:
    def log_warnings(self) -> None: ...
    def get_max_output_tokens(self, prompt_len: int) -> int:
        return 1024

    @classmethod
    def pre_register_and_update(cls, parser: object = None) -> None: ...
    @classmethod
    def apply_config_platform_defaults(cls, config: Config) -> None: ...
    @classmethod
    def check_and_update_config(cls, config: Config) -> None: ...
    @staticmethod
    def update_block_size_for_backend(config: Config) -> None: ...
    def register_custom_kv_cache_specs(self, config: Config) -> None: ...
    def verify_model_arch(self, arch: str) -> None: ...
    def verify_quantization(self, method: str) -> None: ...
    def validate_request(self, prompt: object, params: object) -> None: ...
    def check_if_supports_dtype(self, torch_dtype: torch.dtype) -> None: ...
    def check_runner_kv_caches_multi_layer(self) -> None: ...
    def check_max_model_len(self, length: int) -> int:
        return length

    def get_default_ir_op_priority(self, config: Config) -> list[str]:
        return ["native"]

    def validate_environ(self, hard_fail: bool) -> None: ...


class PlainPickers:
    @property
    def pass_key(self) -> str:
        return "post_grad_custom_post_pass"

    def get_pass_manager_cls(self) -> str:
        return "npu.passes.Manager"

    def get_compile_backend(self) -> str:
        return "npugraph"

    @classmethod
    def get_attn_backend_cls(
        cls, backend: str | None, attn_selector_config: Selector, num_heads: int | None = None
    ) -> str:
        return "npu.attention.Backend"

    def get_supported_vit_attn_backends(self) -> list[str]:
        return ["sdpa"]

    def get_vit_attn_backend(self, head_size: int, dtype: torch.dtype, backend: str | None = None) -> str:
        return "sdpa"

    def get_mla_prefill_backend_cls(self, config: Selector) -> type[Config]:
        return Config

    def get_punica_wrapper(self) -> str:
        return "npu.lora.Wrapper"

    def get_device_communicator_cls(self) -> str:
        return "npu.communicator.Communicator"

    def get_static_graph_wrapper_cls(self) -> str:
        return "npu.graph.Wrapper"

    def opaque_attention_op(self) -> bool:
        return True


class OtherKeyword(PlainPickers):
    @classmethod
    def get_attn_backend_cls(  # E: p
        cls, backend: str | None, selector: Selector, num_heads: int | None = None
    ) -> str:
        return "npu.attention.Backend"


class PlainKernels:
    def import_ir_kernels(self) -> None: ...
    def import_kernels(self) -> None: ...
    def register_triton_kernel_overrides(self) -> None: ...
    def use_sync_weight_loader(self) -> bool:
        return False

    def make_synced_weight_loader(self, loader: Any) -> Any:
        return loader

    def set_additional_forward_context(self, **kwargs: Any) -> dict[str, Any]:
        return {}


def identity(platform: IdentityLike) -> None: ...
def hooks(platform: ConfigHooksLike[Config, object, object, object, list[str]]) -> None: ...
def wrong_hooks(platform: ConfigHooksLike[Selector]) -> None: ...
def pickers(platform: PickersLike[Selector, str | None, str, Selector, Config]) -> None: ...
def kernels(platform: KernelHooksLike[Config]) -> None: ...
def capabilities(platform: CapabilitiesLike) -> None: ...


identity(PlainIdentity())
identity(WithoutDistBackend())  # E: mp
hooks(PlainHooks())
wrong_hooks(PlainHooks())  # E: mp
pickers(PlainPickers())
pickers(OtherKeyword())  # E: mp
pickers(PlainHooks())  # E: mp
kernels(PlainKernels())
capabilities(PlainKernels())  # E: mp


def ours(platform: Platform[Config, Selector, str, str], group: Identity, device: Device) -> None:
    """The ABCs satisfy the Protocols, also the later versions, and the torch names."""
    whole: PlatformLike[Config, Selector, str, str] = platform
    names: TorchNamesLike = platform
    pickers_v2: PickersV2Like[Selector, str, str, object, object, Config] = platform
    device_v2: DeviceV2Like = platform
    capabilities_v2: CapabilitiesV2Like = platform
    identity_like: IdentityLike[PlatformEnum, CpuArchEnum] = group
    device_like: DeviceLike = device
    wrong: PlatformLike[Selector, Selector, str, str] = platform  # E: mp
    other: PlatformLike[Config, Selector, str, int] = platform  # E: mp
    print(whole, names, pickers_v2, device_v2, capabilities_v2, identity_like, device_like, wrong, other)


def engine(platform: PlatformLike[Config, Selector, str, str]) -> None:
    """What an engine may do with a platform, and what it may not."""
    platform.check_and_update_config(Config())
    platform.get_attn_backend_cls("sdpa", attn_selector_config=Selector(), num_heads=None)
    context: AbstractContextManager[object] = platform.inference_mode()
    platform.set_device(torch.device("cpu"))
    platform.is_device_capability_family(90, device_id=1)
    platform.has_device_capability((9, 0), 1)
    platform.get_vit_attn_backend(64, torch.float16, backend=None).upper()
    platform.check_and_update_config(Selector())  # E: mp
    platform.check_and_update_config(vllm_config=Config())  # E: mp
    platform.get_attn_backend_cls("sdpa", Selector(), None)  # E: mp
    platform.get_attn_backend_cls("sdpa", attn_selector_config=Selector())  # E: mp
    platform.get_device_name(device_id=0)  # E: mp
    platform.supported_dtypes.append(torch.float32)  # E: mp
    platform.device_name = "other"  # E: mp
    platform.get_device_capability().major  # E: mp
    platform.get_kv_cache_config_builder_cls(Config())  # E: mp
    platform.has_runtime("synchronize")  # E: mp
    with context, nullcontext():
        pass
