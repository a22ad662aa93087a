"""Broken vLLM platforms: config hooks, variables, device numbers, memory and block sizes; each with a right twin."""

from __future__ import annotations

import os
from typing import Any

from vllm.platforms.cpu import CpuPlatform

_NOTED: dict[str, Any] = {}
_UUIDS = ["chip-a", "chip-b"]


class OptionCrash(CpuPlatform):
    """Reads a key inside a section of the options without a test whether it is there."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        options = vllm_config.additional_config
        if "chip" in options and options["chip"]["fast"]:
            vllm_config.scheduler_config.policy = "priority"


class OptionTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        section = vllm_config.additional_config.get("chip") or {}
        if section.get("fast"):
            vllm_config.scheduler_config.policy = "priority"


class SeqsFixed(CpuPlatform):
    """Puts its own number of sequences in the place of the user's."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.max_num_seqs = 64


class SeqsLimitedTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        scheduler = vllm_config.scheduler_config
        scheduler.max_num_seqs = min(scheduler.max_num_seqs, 64)


class EagerOff(CpuPlatform):
    """Turns compilation on that the user turned off."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if vllm_config.model_config is not None:
            vllm_config.model_config.enforce_eager = False


class OpsReplaced(CpuPlatform):
    """Assigns a new list of ops, without those of the user."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        vllm_config.compilation_config.custom_ops = ["none"]


class OpsExtendedTwin(CpuPlatform):
    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        ops = vllm_config.compilation_config.custom_ops
        if "+rms_norm" not in ops:
            ops.append("+rms_norm")


class HashFails(CpuPlatform):
    """Puts a set into the options, which vLLM cannot write as JSON for its hash."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.additional_config["chip_levels"] = {1, 2}


class HashTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.additional_config["chip_levels"] = [1, 2]


class ConfigKept(CpuPlatform):
    """Keeps the config in its module, where its worker would look for it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        _NOTED["config"] = vllm_config


class VariableOverwritten(CpuPlatform):
    """Writes a switch of vLLM without a look at whether the user set it."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"


class VariableTwin(CpuPlatform):
    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")


class VariableUnlisted(CpuPlatform):
    """Sets a variable that vLLM's rules for Ray do not copy, and does not list it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("_CHIP_IMPL", "native")


class VariableListedTwin(CpuPlatform):
    additional_env_vars = ["_CHIP_IMPL"]

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("_CHIP_IMPL", "native")


class DevicesNarrowed(CpuPlatform):
    """Writes the device variable in a config hook."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        os.environ[cls.device_control_env_var] = "0"


class IdIgnored(CpuPlatform):
    """Takes every device number for a physical one."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        return device_id


class IdCrashes(CpuPlatform):
    """Calls int on whatever the variable holds."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        value = os.environ.get(cls.device_control_env_var, "").rstrip(",")
        return int(value.split(",")[device_id]) if value else device_id


class IdTwin(CpuPlatform):
    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        name = cls.device_control_env_var
        value = os.environ.get(name, "").strip().rstrip(",")
        if not value:
            return device_id
        entries = [one.strip() for one in value.split(",")]
        if not 0 <= device_id < len(entries) or not entries[device_id].isdigit():
            raise ValueError(f"{name}={value!r} has no number for device {device_id}")
        return int(entries[device_id])


class UuidUnmapped(CpuPlatform):
    """Asks for the identifier by the number in this process."""

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        return _UUIDS[device_id]


class UuidTwin(CpuPlatform):
    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        return _UUIDS[cls.visible_device_id_to_physical_device_id(device_id)]


class MemoryShrinks(CpuPlatform):
    """Gives what is free just now as the total."""

    _free = [8 << 30]

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        cls._free[0] -= 1 << 20
        return cls._free[0]


class MemoryTwin(CpuPlatform):
    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return 8 << 30


class SizeResetLater(CpuPlatform):
    """Sets a block size in the config hook, and another one in the worker's."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 256

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 64


class SizeTwin(CpuPlatform):
    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 256


class PagesTooSmall(CpuPlatform):
    """Leaves a hybrid model's pages smaller than its states."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        super().check_and_update_config(vllm_config)
        cache = vllm_config.cache_config
        if not cache.user_specified_block_size:
            cache.block_size = 32

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        return None


class ParserClosed(CpuPlatform):
    """Adds an option to the command line that everybody has to give."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        if parser is not None:
            parser.add_argument("--chip-level", required=True)


class ParserTwin(CpuPlatform):
    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        if parser is not None:
            parser.add_argument("--chip-level", type=int, default=1, help="a level of the chip")


class NotedTwice(CpuPlatform):
    """Returns at once where it finds its own mark in the config."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        options = vllm_config.additional_config
        if options.get("chip_done"):
            return
        if vllm_config.model_config is not None:
            super().check_and_update_config(vllm_config)
        options["chip_done"] = True
