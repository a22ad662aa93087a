"""The typed contract between an inference engine and an accelerator platform.

A vendor subclasses `Platform`; an engine requires `PlatformLike`. Importing this package imports no torch;
every public name is loaded when it is first read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from platform_abc.capabilities import Capabilities as Capabilities
    from platform_abc.capabilities import CapabilitiesLike as CapabilitiesLike
    from platform_abc.capabilities import CapabilitiesV2Like as CapabilitiesV2Like
    from platform_abc.capabilities import has_capabilities_v2 as has_capabilities_v2
    from platform_abc.config_hooks import ConfigHooks as ConfigHooks
    from platform_abc.config_hooks import ConfigHooksLike as ConfigHooksLike
    from platform_abc.device import Device as Device
    from platform_abc.device import DeviceLike as DeviceLike
    from platform_abc.device import DeviceV2Like as DeviceV2Like
    from platform_abc.device import has_device_v2 as has_device_v2
    from platform_abc.errors import CONTRACT_VERSION as CONTRACT_VERSION
    from platform_abc.errors import ConfigError as ConfigError
    from platform_abc.errors import ContractWarning as ContractWarning
    from platform_abc.errors import DeviceUnavailable as DeviceUnavailable
    from platform_abc.errors import FailingImport as FailingImport
    from platform_abc.errors import MalformedQualname as MalformedQualname
    from platform_abc.errors import MissingDependency as MissingDependency
    from platform_abc.errors import MissingModule as MissingModule
    from platform_abc.errors import MissingName as MissingName
    from platform_abc.errors import NotSupported as NotSupported
    from platform_abc.errors import QualnameError as QualnameError
    from platform_abc.errors import ResolutionError as ResolutionError
    from platform_abc.identity import Identity as Identity
    from platform_abc.identity import IdentityLike as IdentityLike
    from platform_abc.kernel_hooks import KernelHooks as KernelHooks
    from platform_abc.kernel_hooks import KernelHooksLike as KernelHooksLike
    from platform_abc.members import MEMBERS as MEMBERS
    from platform_abc.pickers import Pickers as Pickers
    from platform_abc.pickers import PickersLike as PickersLike
    from platform_abc.pickers import PickersV2Like as PickersV2Like
    from platform_abc.pickers import has_pickers_v2 as has_pickers_v2
    from platform_abc.platform import Platform as Platform
    from platform_abc.platform import PlatformLike as PlatformLike
    from platform_abc.qualname import resolve_obj_by_qualname as resolve_obj_by_qualname
    from platform_abc.torch_fallback import TorchNames as TorchNames
    from platform_abc.torch_fallback import TorchNamesLike as TorchNamesLike
    from platform_abc.types import CpuArchEnum as CpuArchEnum
    from platform_abc.types import DeviceCapability as DeviceCapability
    from platform_abc.types import DeviceCapabilityLike as DeviceCapabilityLike
    from platform_abc.types import PlatformEnum as PlatformEnum

_HOMES: Final = {
    "capabilities": ("Capabilities", "CapabilitiesLike", "CapabilitiesV2Like", "has_capabilities_v2"),
    "config_hooks": ("ConfigHooks", "ConfigHooksLike"),
    "device": ("Device", "DeviceLike", "DeviceV2Like", "has_device_v2"),
    "errors": (
        "CONTRACT_VERSION",
        "ConfigError",
        "ContractWarning",
        "DeviceUnavailable",
        "FailingImport",
        "MalformedQualname",
        "MissingDependency",
        "MissingModule",
        "MissingName",
        "NotSupported",
        "QualnameError",
        "ResolutionError",
    ),
    "identity": ("Identity", "IdentityLike"),
    "kernel_hooks": ("KernelHooks", "KernelHooksLike"),
    "members": ("MEMBERS",),
    "pickers": ("Pickers", "PickersLike", "PickersV2Like", "has_pickers_v2"),
    "platform": ("Platform", "PlatformLike"),
    "qualname": ("resolve_obj_by_qualname",),
    "torch_fallback": ("TorchNames", "TorchNamesLike"),
    "types": ("CpuArchEnum", "DeviceCapability", "DeviceCapabilityLike", "PlatformEnum"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [name for names in _HOMES.values() for name in names]

if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept every name.
    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
