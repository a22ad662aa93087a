"""An override with the wrong types is an error at its line; each kind of override that works stays clean."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from platform_abc import DeviceCapability, Platform, PlatformEnum


class Base(Platform["EngineConfig", "SelectorConfig"]):
    _enum = PlatformEnum.OOT
    device_name = "dummy"
    device_type = "privateuseone"
    supported_quantization = ["fp8"]
    additional_env_vars: list[str] = ["DUMMY_HOME"]

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        super().apply_config_platform_defaults(vllm_config)

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: object,
        attn_selector_config: SelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        return "dummy.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Dummy"


class EngineConfig:
    worker_cls = "auto"


class SelectorConfig:
    head_size = 64


class Good(Base):
    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        return [torch.float32]

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        return DeviceCapability(9, 0)

    @classmethod
    def set_additional_forward_context(cls, **kwargs: Any) -> dict[str, Any]:
        return {"slots": kwargs["num_tokens"]}

    @classmethod
    def my_own_hook(cls, anything: int) -> int:
        """A vendor's own public name is allowed."""
        return anything

    # Names of the torch fallback may be overridden by any kind of method.
    @classmethod
    def device_count(cls) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    @staticmethod
    def synchronize(device: object = None) -> None:
        """Nothing to wait for."""


Good()


class WrongAttribute(Platform, abstract=True):
    device_type = 7  # E: mp


class ClassVarAttribute(Platform, abstract=True):
    device_name: ClassVar[str] = "dummy"  # E: mp


class PropertyAttribute(Platform, abstract=True):
    @property
    def device_name(self) -> str:  # E: mp
        return "dummy"


class WrongReturn(Base):
    @classmethod
    def get_device_name(cls, device_id: int = 0) -> int:  # E: mp
        return device_id


class WrongArgument(Base):
    @classmethod
    def set_device(cls, device: int) -> None:  # E: mp
        """Take a number instead of a torch device."""


class WrongConfig(Base):
    @classmethod
    def check_and_update_config(cls, vllm_config: SelectorConfig) -> None:  # E: mp
        """Take another config than the engine's."""


class WithoutArgument(Base):
    @classmethod
    def get_device_name(cls) -> str:  # E: mp
        return "Dummy"


class ArgumentMore(Base):
    @classmethod
    def get_attn_backend_cls(  # E: mp
        cls,
        selected_backend: object,
        attn_selector_config: SelectorConfig,
        num_heads: int | None,
        head_size: int,
    ) -> str:
        return "dummy.attention.Backend"


class WithoutNumHeads(Base):
    @classmethod
    def get_attn_backend_cls(cls, selected_backend: object, attn_selector_config: SelectorConfig) -> str:  # E: mp
        return "dummy.attention.Backend"


class InstanceMethod(Base):
    def get_device_uuid(self, device_id: int = 0) -> str:  # E: mp
        return "0"


class NotAMethod(Base):
    get_punica_wrapper = "dummy.lora.Wrapper"  # E: mp


class WrongTorchName(Base):
    @classmethod
    def device_count(cls) -> str:  # E: mp
        return "1"
