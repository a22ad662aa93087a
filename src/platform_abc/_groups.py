"""The six groups as data: which Protocol declares which member, and which ABC gives its default."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import FunctionType, MappingProxyType
from typing import Final, NamedTuple

from platform_abc._calls import Call, calls_of
from platform_abc._required import find
from platform_abc.capabilities import Capabilities, CapabilitiesLike, CapabilitiesV2Like
from platform_abc.config_hooks import ConfigHooks, ConfigHooksLike
from platform_abc.device import Device, DeviceLike, DeviceV2Like
from platform_abc.identity import Identity, IdentityLike
from platform_abc.kernel_hooks import KernelHooks, KernelHooksLike
from platform_abc.pickers import Pickers, PickersLike, PickersV2Like


class Group(NamedTuple):
    """One group of members.

    Args:
        name: as in reports.
        abc: what gives the defaults.
        protocols: what an engine requires: the frozen one, then what later versions add.
    """

    name: str
    abc: type
    protocols: tuple[type, ...]


GROUPS: Final = (
    Group("identity", Identity, (IdentityLike,)),
    Group("config_hooks", ConfigHooks, (ConfigHooksLike,)),
    Group("pickers", Pickers, (PickersLike, PickersV2Like)),
    Group("kernel_hooks", KernelHooks, (KernelHooksLike,)),
    Group("device", Device, (DeviceLike, DeviceV2Like)),
    Group("capabilities", Capabilities, (CapabilitiesLike, CapabilitiesV2Like)),
)


class Declaration(NamedTuple):
    """One member, as its Protocol declares it.

    Args:
        group: of the member.
        version: of the Protocol, counted from 1.
        declared: the property or the function in the Protocol.
        default: what the ABC has under the name, unbound.
    """

    group: Group
    version: int
    declared: property | FunctionType
    default: object

    @property
    def mandatory(self) -> bool:
        """Whether the ABC leaves it to the platform."""
        return bool(getattr(self.default, "__isabstractmethod__", False))


@functools.cache
def declarations() -> Mapping[str, Declaration]:
    """Return every member that a Protocol declares, by name, group after group."""
    found: dict[str, Declaration] = {}
    for group in GROUPS:
        for version, protocol in enumerate(group.protocols, start=1):
            for name, declared in vars(protocol).items():
                if not name.startswith("__") and isinstance(declared, (property, FunctionType)):
                    found[name] = Declaration(group, version, declared, find(group.abc, name))
    return MappingProxyType(found)


@functools.cache
def mandatory() -> tuple[str, ...]:
    """Return the names of the members that every platform must define, group after group."""
    return tuple(name for name, one in declarations().items() if one.mandatory)


@functools.cache
def calls(name: str) -> tuple[Call, ...]:
    """Return the calls that an engine makes of a member; none for an attribute or a property."""
    declared = declarations()[name].declared
    return () if isinstance(declared, property) else calls_of(declared)
