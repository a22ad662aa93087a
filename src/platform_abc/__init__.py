"""The typed contract between an inference engine and an accelerator platform.

A vendor subclasses `Platform`; an engine requires `PlatformLike`. Importing this package imports no torch;
every public name is loaded when it is first read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from platform_abc.capabilities import (
        Capabilities,
        CapabilitiesLike,
        CapabilitiesV2Like,
        has_capabilities_v2,
    )
    from platform_abc.config_hooks import ConfigHooks, ConfigHooksLike
    from platform_abc.device import Device, DeviceLike, DeviceV2Like, has_device_v2
    from platform_abc.errors import (
        CONTRACT_VERSION,
        ConfigError,
        ContractWarning,
        DeviceUnavailable,
        FailingImport,
        MalformedQualname,
        MissingDependency,
        MissingModule,
        MissingName,
        NotSupported,
        QualnameError,
        ResolutionError,
    )
    from platform_abc.identity import Identity, IdentityLike
    from platform_abc.kernel_hooks import KernelHooks, KernelHooksLike
    from platform_abc.members import MEMBERS, MemberSpec
    from platform_abc.pickers import Pickers, PickersLike, PickersV2Like, has_pickers_v2
    from platform_abc.platform import Platform, PlatformLike
    from platform_abc.qualname import resolve_obj_by_qualname
    from platform_abc.torch_fallback import TorchNames, TorchNamesLike
    from platform_abc.types import CpuArchEnum, DeviceCapability, DeviceCapabilityLike, PlatformEnum

__all__ = [
    "CONTRACT_VERSION",
    "Capabilities",
    "CapabilitiesLike",
    "CapabilitiesV2Like",
    "ConfigError",
    "ConfigHooks",
    "ConfigHooksLike",
    "ContractWarning",
    "CpuArchEnum",
    "Device",
    "DeviceCapability",
    "DeviceCapabilityLike",
    "DeviceLike",
    "DeviceUnavailable",
    "DeviceV2Like",
    "FailingImport",
    "Identity",
    "IdentityLike",
    "KernelHooks",
    "KernelHooksLike",
    "MEMBERS",
    "MalformedQualname",
    "MemberSpec",
    "MissingDependency",
    "MissingModule",
    "MissingName",
    "NotSupported",
    "Pickers",
    "PickersLike",
    "PickersV2Like",
    "Platform",
    "PlatformEnum",
    "PlatformLike",
    "QualnameError",
    "ResolutionError",
    "TorchNames",
    "TorchNamesLike",
    "has_capabilities_v2",
    "has_device_v2",
    "has_pickers_v2",
    "resolve_obj_by_qualname",
]

_HOME_OF: Final = {
    "Capabilities": "capabilities",
    "CapabilitiesLike": "capabilities",
    "CapabilitiesV2Like": "capabilities",
    "has_capabilities_v2": "capabilities",
    "ConfigHooks": "config_hooks",
    "ConfigHooksLike": "config_hooks",
    "Device": "device",
    "DeviceLike": "device",
    "DeviceV2Like": "device",
    "has_device_v2": "device",
    "CONTRACT_VERSION": "errors",
    "ConfigError": "errors",
    "ContractWarning": "errors",
    "DeviceUnavailable": "errors",
    "FailingImport": "errors",
    "MalformedQualname": "errors",
    "MissingDependency": "errors",
    "MissingModule": "errors",
    "MissingName": "errors",
    "NotSupported": "errors",
    "QualnameError": "errors",
    "ResolutionError": "errors",
    "Identity": "identity",
    "IdentityLike": "identity",
    "KernelHooks": "kernel_hooks",
    "KernelHooksLike": "kernel_hooks",
    "MEMBERS": "members",
    "MemberSpec": "members",
    "Pickers": "pickers",
    "PickersLike": "pickers",
    "PickersV2Like": "pickers",
    "has_pickers_v2": "pickers",
    "Platform": "platform",
    "PlatformLike": "platform",
    "resolve_obj_by_qualname": "qualname",
    "TorchNames": "torch_fallback",
    "TorchNamesLike": "torch_fallback",
    "CpuArchEnum": "types",
    "DeviceCapability": "types",
    "DeviceCapabilityLike": "types",
    "PlatformEnum": "types",
}
"""The module that defines each public name."""

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
