"""Mutants of what hooks and queries do with variables of the environment, and their right twins."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from tests.mutants.good import Good

_UUIDS = ["chip-a", "chip-b"]
_AT_IMPORT = os.environ.get("CHIP_VISIBLE_DEVICES", "")
_COUNT_AT_IMPORT = len(os.environ.get("CHIP_VISIBLE_DEVICES", "0,1").split(","))


class Overwrites(Good):
    """Writes a switch without a look at whether the user set it."""

    additional_env_vars: list[str] = ["CHIP_FEATURE"]

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Write it."""
        os.environ["CHIP_FEATURE"] = "0"


class SetsDefault(Good):
    """Writes a switch where the user has not set it."""

    additional_env_vars: list[str] = ["CHIP_FEATURE"]

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Write it."""
        os.environ.setdefault("CHIP_FEATURE", "0")


class ReplacesPath(Good):
    """Puts its own folder in the place of the library path."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        os.environ["LD_LIBRARY_PATH"] = "/opt/chip/lib"


class ExtendsPath(Good):
    """Adds its own folder to the library path once."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Add it."""
        super().check_and_update_config(vllm_config)
        path = os.environ.get("LD_LIBRARY_PATH", "")
        if "/opt/chip/lib" not in path.split(":"):
            os.environ["LD_LIBRARY_PATH"] = f"/opt/chip/lib:{path}" if path else "/opt/chip/lib"


class DropsProxy(Good):
    """Removes a variable of the user's."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Remove it."""
        super().check_and_update_config(vllm_config)
        os.environ.pop("PYTHONPATH", None)


class QuantizationWrites(Good):
    """Overwrites a switch when a quantized model is verified."""

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        """Overwrite it."""
        super().verify_quantization(quant)
        os.environ["CHIP_W8_KERNEL"] = "1"


class HidesDevices(Good):
    """Narrows the device variable in a config hook."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Narrow it."""
        super().check_and_update_config(vllm_config)
        os.environ["CHIP_VISIBLE_DEVICES"] = "0"


class DropsDevices(Good):
    """Removes the device variable in the defaults hook."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Remove it."""
        os.environ.pop("CHIP_VISIBLE_DEVICES", None)


class Unlisted(Good):
    """Sets a variable that decides what workers import, and does not list it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("_CHIP_IMPL", "native")


class Listed(Good):
    """Sets a variable that decides what workers import, and lists it."""

    additional_env_vars: list[str] = ["_CHIP_IMPL"]

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        super().check_and_update_config(vllm_config)
        os.environ.setdefault("_CHIP_IMPL", "native")


class IgnoresVariable(Good):
    """Takes every device number for a physical one."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Return it."""
        return device_id


class ReadAtImport(Good):
    """Maps device numbers by what the variable was at import."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Look it up."""
        return int(_AT_IMPORT.split(",")[device_id]) if _AT_IMPORT else device_id


class NoTrailingComma(Good):
    """Does not bear a comma at the end, which it takes for one more device."""

    @classmethod
    def visible_device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Turn every entry into a number."""
        value = os.environ.get("CHIP_VISIBLE_DEVICES", "")
        return [int(one) for one in value.split(",")][device_id] if value else device_id


class IdentifierCrashes(Good):
    """Calls int on whatever the variable holds."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Call it."""
        value = os.environ.get("CHIP_VISIBLE_DEVICES", "").strip().rstrip(",")
        if not value:
            return device_id
        if device_id < 0:
            raise IndexError(f"CHIP_VISIBLE_DEVICES={value}: no device {device_id}")
        return int(value.split(",")[device_id])


class CountsFromEnd(Good):
    """Takes a negative number as one from the end of the list."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Look it up."""
        value = os.environ.get("CHIP_VISIBLE_DEVICES", "").strip().rstrip(",")
        if not value:
            return device_id
        try:
            return [int(one) for one in value.split(",")][device_id]
        except (ValueError, IndexError) as error:
            raise ValueError(f"CHIP_VISIBLE_DEVICES={value}: {error}") from error


class NamesVariable(Good):
    """Maps device numbers itself, and names the variable in each error."""

    @classmethod
    def device_id_to_physical_device_id(cls, device_id: int) -> int:
        """Look it up."""
        value = os.environ.get("CHIP_VISIBLE_DEVICES", "").strip()
        if not value:
            return device_id
        entries = [one.strip() for one in value.rstrip(",").split(",")]
        if not 0 <= device_id < len(entries) or not entries[device_id].isdigit():
            raise ValueError(f"CHIP_VISIBLE_DEVICES={value!r} has no number for device {device_id}")
        return int(entries[device_id])


class UuidUnmapped(Good):
    """Asks for the identifier by the number in this process, whichever devices are visible."""

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Ask for it."""
        return _UUIDS[device_id]


class UuidMapped(Good):
    """Asks for the identifier by the physical number."""

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Ask for it."""
        return _UUIDS[cls.visible_device_id_to_physical_device_id(device_id)]


class CountsAtImport(Good):
    """Counts devices when its module is imported."""

    @classmethod
    def device_count(cls) -> int:
        """Return that."""
        return _COUNT_AT_IMPORT


class CountsAtImportTold(Good):
    """Counts devices when its module is imported, and keeps Ray from changing the variable."""

    ray_noset_device_env_vars: list[str] = ["RAY_EXPERIMENTAL_NOSET_CHIP_VISIBLE_DEVICES"]

    @classmethod
    def device_count(cls) -> int:
        """Return that."""
        return _COUNT_AT_IMPORT


class MemoryInKib(Good):
    """Gives the memory in KiB."""

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return it."""
        return (8 << 30) >> 10

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        """Return it."""
        return float((1 << 30) >> 10)


class MemoryShrinks(Good):
    """Gives what is free just now as the total."""

    _free: list[int] = [8 << 30]

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return it."""
        cls._free[0] -= 4 << 20
        return cls._free[0]


class MemoryPooled(Good):
    """Reports the memory of all linked cards as one device's."""

    @classmethod
    def mem_get_info(cls, device: Any = None) -> tuple[int, int]:
        """Return it."""
        return 30 << 30, 48 << 30


class MemoryGone(Good):
    """Reports no free memory where the device variable is set."""

    @classmethod
    def mem_get_info(cls, device: Any = None) -> tuple[int, int]:
        """Return it."""
        return (0 if os.environ.get("CHIP_VISIBLE_DEVICES") else 6 << 30), 8 << 30


class MemoryAlike(Good):
    """Reports the same total wherever it is asked."""

    @classmethod
    def mem_get_info(cls, device: Any = None) -> tuple[int, int]:
        """Return it."""
        return 6 << 30, 8 << 30


class LibrariesTogether(Good):
    """Imports two libraries in one try, so that the one hides the other."""

    @classmethod
    def import_kernels(cls) -> None:
        """Import them."""
        try:
            import chip_kernels_new  # type: ignore[import-not-found]  # noqa: F401
            import chip_kernels_old  # type: ignore[import-not-found]  # noqa: F401
        except ImportError:
            return


class LibrariesApart(Good):
    """Imports each library by itself, and a third where the second is missing."""

    @classmethod
    def import_kernels(cls) -> None:
        """Import them."""
        with contextlib.suppress(ImportError):
            import chip_kernels_old  # noqa: F401
        try:
            import chip_kernels_new  # noqa: F401
        except ImportError:
            try:
                import chip_kernels_plain  # type: ignore[import-not-found]  # noqa: F401
            except ImportError:
                return
