"""Vendor code written against the first version of the contract; it must stay clean through every minor version.

Apart from the last part, this file is never changed within a major version.
"""

from __future__ import annotations

from typing import Any

import torch
from typing_extensions import assert_type

from platform_abc import NotSupported, Platform, PlatformEnum, PlatformLike
from platform_abc.pickers import PickersLike


class VendorConfig:
    """An engine's config."""

    worker_cls = "auto"
    block_size: int | None = None


class VendorSelector:
    """An engine's selector config."""

    use_mla = False


class Vendor(Platform[VendorConfig, VendorSelector, str | None, str]):
    """A vendor that inherits the defaults and overrides hooks of every group."""

    _enum = PlatformEnum.OOT
    device_name = "npu"
    device_type = "npu"
    dispatch_key = "PrivateUse1"
    dist_backend = "hccl"
    ray_device_key = "NPU"
    device_control_env_var = "NPU_VISIBLE_DEVICES"
    supported_quantization: list[str] = ["fp8", "awq"]

    @property
    def pass_key(self) -> str:
        return "npu_passes"

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        return [torch.float16]

    @classmethod
    def check_and_update_config(cls, vllm_config: VendorConfig) -> None:
        if vllm_config.worker_cls == "auto":
            vllm_config.worker_cls = "npu.worker.Worker"

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: VendorConfig) -> None:
        vllm_config.block_size = 128

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: str | None,
        attn_selector_config: VendorSelector,
        num_heads: int | None = None,
    ) -> str:
        if attn_selector_config.use_mla:
            raise NotSupported("get_attn_backend_cls", cls.__name__, "use a model without latent attention")
        return "npu.attention.Backend"

    @classmethod
    def get_punica_wrapper(cls) -> str:
        return "npu.lora.Wrapper"

    @classmethod
    def import_kernels(cls) -> None:
        super().import_kernels()

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "NPU"

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return 64 << 30

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Nothing to do."""

    @classmethod
    def set_additional_forward_context(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"moe": True}

    @classmethod
    def supports_fp8(cls) -> bool:
        return True

    @classmethod
    def empty_cache(cls) -> None:
        """A name that torch would answer otherwise."""


class StructuralPickers:
    """A vendor that inherits nothing, written before `get_kv_cache_config_builder_cls` existed."""

    pass_key = "npu_passes"

    def get_pass_manager_cls(self) -> str:
        return "npu.passes.Manager"

    def get_compile_backend(self) -> str:
        return "npugraph"

    def get_attn_backend_cls(
        self, backend: str | None, attn_selector_config: VendorSelector, num_heads: int | None = None
    ) -> str:
        return "npu.attention.Backend"

    def get_supported_vit_attn_backends(self) -> tuple[str, ...]:
        return ("sdpa",)

    def get_vit_attn_backend(self, head_size: int, dtype: torch.dtype, backend: str | None = None) -> str:
        return "sdpa"

    def get_mla_prefill_backend_cls(self, config: object) -> type[int]:
        return int

    def get_punica_wrapper(self) -> str:
        return "npu.lora.Wrapper"

    def get_device_communicator_cls(self) -> str:
        return "npu.communicator.Communicator"

    def get_static_graph_wrapper_cls(self) -> str:
        return "npu.graph.Wrapper"

    def opaque_attention_op(self) -> bool:
        return True


VendorPickers = PickersLike[VendorSelector, str | None, str, object, int]

vendor: PlatformLike[VendorConfig, VendorSelector, str | None, str] = Vendor()
structural: VendorPickers = StructuralPickers()


# What came later: an engine narrows before it uses a new hook.

from platform_abc.capabilities import CapabilitiesLike, has_capabilities_v2  # noqa: E402
from platform_abc.device import DeviceLike, has_device_v2  # noqa: E402
from platform_abc.pickers import PickersV2Like, has_pickers_v2  # noqa: E402


def newer_engine(pickers: VendorPickers, config: VendorConfig) -> str:
    """Use a hook of the second version where the platform has it."""
    if has_pickers_v2(pickers):
        assert_type(pickers.get_kv_cache_config_builder_cls(config), str)
        return pickers.get_kv_cache_config_builder_cls(config)
    pickers.get_kv_cache_config_builder_cls(config)  # E: mp
    return "engine.DefaultBuilder"


def newer_device(device: DeviceLike, capabilities: CapabilitiesLike) -> bool:
    """Use other hooks of the second version."""
    device.is_fully_connected([0, 1])  # E: mp
    return (has_device_v2(device) and device.is_fully_connected([0, 1])) or (
        has_capabilities_v2(capabilities) and capabilities.is_on_gfx9()
    )


needs_v2: PickersV2Like[VendorSelector, str | None, str, object, int, VendorConfig] = StructuralPickers()  # E: mp
