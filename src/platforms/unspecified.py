"""The platform that stands for "no device was detected": it can be named, printed and pickled, no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from platform_abc.errors import ConfigError, DeviceUnavailable
from platform_abc.types import PlatformEnum
from platforms.native import NativePlatform

if TYPE_CHECKING:
    import torch

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig

REMEDY: Final = (
    "run `python -m platform_abc` to see what each detector answered, then install the driver or the "
    "platform package of your device, or set PLATFORM_ABC_TARGET_DEVICE=cpu"
)
"""What to do when no device was detected."""


class UnspecifiedPlatform(NativePlatform):
    """No device was detected. Its device type is empty, and whatever needs a device says what to do."""

    _enum = PlatformEnum.UNSPECIFIED
    device_name: str = "unspecified"
    device_type: str = ""

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> NoReturn:
        """Refuse every config: there is nothing to run it on.

        Args:
            vllm_config: not read.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "device_config.device: no device was detected, so no config can run; to make it work, " + REMEDY
        )

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> NoReturn:
        """Refuse: without a device there is no attention backend.

        Args:
            selected_backend: not read.
            attn_selector_config: not read.
            num_heads: not read.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("no attention backend: no device was detected; to make it work, " + REMEDY)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> NoReturn:
        """Refuse: there is no device to name.

        Args:
            device_id: not read.

        Raises:
            DeviceUnavailable: always.
        """
        raise DeviceUnavailable("get_device_name", cls.__name__, REMEDY)

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> NoReturn:
        """Refuse: there is no device with memory.

        Args:
            device_id: not read.

        Raises:
            DeviceUnavailable: always.
        """
        raise DeviceUnavailable("get_device_total_memory", cls.__name__, REMEDY)

    @classmethod
    def set_device(cls, device: torch.device) -> NoReturn:
        """Refuse: there is no device to make current.

        Args:
            device: not read.

        Raises:
            DeviceUnavailable: always.
        """
        raise DeviceUnavailable("set_device", cls.__name__, REMEDY)

    @classmethod
    def manual_seed_all(cls, seed: int) -> NoReturn:
        """Refuse: there is no device to seed.

        Args:
            seed: not read.

        Raises:
            DeviceUnavailable: always.
        """
        raise DeviceUnavailable("manual_seed_all", cls.__name__, REMEDY)
