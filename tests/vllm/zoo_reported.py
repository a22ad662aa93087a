"""Broken vLLM platforms with faults that people reported of real ones, each beside a correct twin."""

from __future__ import annotations

import os
from typing import Any

from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import DeviceCapability, PlatformEnum

PARTS = "tests.vllm.parts"
VARIABLE = "CPU_VISIBLE_MEMORY_NODES"


class SectionNeedsKey(CpuPlatform):
    """Reads a key inside a section of the options without a test whether it is there."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        options = vllm_config.additional_config
        if "chip_compile" in options and options["chip_compile"]["fast"]:
            vllm_config.scheduler_config.policy = "priority"


class SectionMayLackKey(CpuPlatform):
    """Reads a section of the options that may lack its keys or be None."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        section = vllm_config.additional_config.get("chip_compile") or {}
        if section.get("fast"):
            vllm_config.scheduler_config.policy = "priority"


class SwitchOverwritten(CpuPlatform):
    """Writes a switch without a look at whether the user set it."""

    additional_env_vars: list[str] = ["CHIP_FEATURE"]

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        os.environ["CHIP_FEATURE"] = "0"


class SwitchByDefault(CpuPlatform):
    """Writes a switch where the user has not set it."""

    additional_env_vars: list[str] = ["CHIP_FEATURE"]

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        os.environ.setdefault("CHIP_FEATURE", "0")


class SwitchUnlisted(CpuPlatform):
    """Sets a variable that decides what workers import, and does not list it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("_CHIP_IMPL", "native")


class SwitchListed(CpuPlatform):
    """Sets a variable that decides what workers import, and lists it."""

    additional_env_vars: list[str] = ["_CHIP_IMPL"]

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("_CHIP_IMPL", "native")


class BlockSizesDiffer(CpuPlatform):
    """Sets one block size in the config hook and another in the hook that knows the backend."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 128

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 64


class IdentifierCrashes(CpuPlatform):
    """Calls int on whatever the device variable holds."""

    device_control_env_var = VARIABLE

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        value = os.environ.get(VARIABLE, "").strip().rstrip(",")
        if not value:
            return device_id
        if device_id < 0:
            raise IndexError(f"{VARIABLE}={value}: no device {device_id}")
        return int(value.split(",")[device_id])


class IdentifierNamed(CpuPlatform):
    """Maps device numbers itself, and names the variable in each error."""

    device_control_env_var = VARIABLE

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        value = os.environ.get(VARIABLE, "").strip()
        if not value:
            return device_id
        entries = [one.strip() for one in value.rstrip(",").split(",")]
        if not 0 <= device_id < len(entries) or not entries[device_id].isdigit():
            raise ValueError(f"{VARIABLE}={value!r} has no number for device {device_id}")
        return int(entries[device_id])


class CapabilityOfAnother(CpuPlatform):
    """Announces a capability of CUDA that its device has not got."""

    _enum = PlatformEnum.OOT

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        return DeviceCapability(8, 0)


class LoraMadeOld(CpuPlatform):
    """Names a LoRA wrapper that cannot be made as the engine makes it."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        return f"{PARTS}.LoraOld"


class CommunicatorGathersOld(CpuPlatform):
    """Names a communicator with an older all-gather."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return f"{PARTS}.CommunicatorOld"


class BackendNameUnknown(CpuPlatform):
    """Names a backend that the engine cannot look up."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        super().get_attn_backend_cls(selected_backend, attn_selector_config, num_heads)
        return f"{PARTS}.NameUnknown"


class LibrariesTogether(CpuPlatform):
    """Imports two libraries in one try, so that the one hides the other."""

    @classmethod
    def import_kernels(cls) -> None:
        try:
            import chip_kernels_new  # type: ignore[import-not-found]  # noqa: F401
            import chip_kernels_old  # type: ignore[import-not-found]  # noqa: F401
        except ImportError:
            return


class Misspells(CpuPlatform):
    """Misspells a capability."""

    @classmethod
    def supports_fp_8(cls) -> bool:
        return False
