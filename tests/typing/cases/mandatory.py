"""A forgotten mandatory member is an error where the platform is instantiated, or defined as final."""

from __future__ import annotations

from typing import final

from platform_abc import Platform, PlatformEnum


class Complete(Platform):
    _enum = PlatformEnum.OOT
    device_name = "dummy"
    device_type = "privateuseone"

    @classmethod
    def check_and_update_config(cls, vllm_config: object) -> None:
        """Leave the config alone."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: object, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        return "dummy.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Dummy"


class Annotated(Complete):
    # A plain annotation is as good as none; a ClassVar would be an error.
    device_name: str = "annotated"


Complete()
Annotated()
Complete.device_name.upper()


class Methods(Platform, abstract=True):
    @classmethod
    def check_and_update_config(cls, vllm_config: object) -> None:
        """Leave the config alone."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: object, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        return "dummy.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Dummy"


class Attributes(Platform, abstract=True):
    _enum = PlatformEnum.OOT
    device_name = "dummy"
    device_type = "privateuseone"


class WithoutEnum(Methods):
    device_name = "dummy"
    device_type = "privateuseone"


class WithoutDeviceName(Methods):
    _enum = PlatformEnum.OOT
    device_type = "privateuseone"


class WithoutDeviceType(Methods):
    _enum = PlatformEnum.OOT
    device_name = "dummy"


class OnlyAnnotated(Methods):
    # To a checker an annotation defines the attribute; Python still refuses the class.
    _enum = PlatformEnum.OOT
    device_name: str
    device_type = "privateuseone"


class WithoutConfigHook(Attributes):
    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: object, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        return "dummy.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Dummy"


class WithoutAttentionPicker(Attributes):
    @classmethod
    def check_and_update_config(cls, vllm_config: object) -> None:
        """Leave the config alone."""

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "Dummy"


class WithoutProductName(Attributes):
    @classmethod
    def check_and_update_config(cls, vllm_config: object) -> None:
        """Leave the config alone."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: object, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        return "dummy.attention.Backend"


Platform()  # E: mp
Methods()  # E: mp
Attributes()  # E: mp
WithoutEnum()  # E: mp
WithoutDeviceName()  # E: mp
WithoutDeviceType()  # E: mp
OnlyAnnotated()
WithoutConfigHook()  # E: mp
WithoutAttentionPicker()  # E: mp
WithoutProductName()  # E: mp


@final
class FinalWithoutDeviceName(Methods):  # E: mp
    _enum = PlatformEnum.OOT
    device_type = "privateuseone"


@final
class FinalWithoutProductName(WithoutProductName):  # E: mp
    """Final, so nothing can define what is missing any more."""
