"""A complete platform to build tests on, without torch and without a device."""

from __future__ import annotations

from platform_abc import Platform, PlatformEnum


class Complete(Platform):
    """The least that a platform must define."""

    _enum = PlatformEnum.OOT
    device_name = "dummy"
    device_type = "cpu"

    @classmethod
    def check_and_update_config(cls, vllm_config: object) -> None:
        """Leave the config alone."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: object, attn_selector_config: object, num_heads: int | None = None
    ) -> str:
        """Name a class."""
        return "dummy.attention.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Name the product."""
        return "Dummy"
