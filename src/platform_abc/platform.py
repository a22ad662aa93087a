"""`Platform`, the six groups composed for vendors to subclass, and `PlatformLike`, what an engine requires."""

from __future__ import annotations

from typing import Generic, Protocol

from platform_abc import _enforce
from platform_abc._typevars import (
    BackendIn,
    BackendIn_contra,
    BackendOut,
    BackendOut_co,
    Config,
    Config_contra,
    CpuArch_co,
    Inputs,
    Inputs_contra,
    IrPriority,
    IrPriority_co,
    Kind_co,
    MlaBackend,
    MlaBackend_co,
    MlaSelector,
    MlaSelector_contra,
    Params,
    Params_contra,
    Parser,
    Parser_contra,
    Selector,
    Selector_contra,
)
from platform_abc.capabilities import Capabilities, CapabilitiesLike
from platform_abc.config_hooks import ConfigHooks, ConfigHooksLike
from platform_abc.device import Device, DeviceLike
from platform_abc.identity import Identity, IdentityLike
from platform_abc.kernel_hooks import KernelHooks, KernelHooksLike
from platform_abc.pickers import Pickers, PickersLike


class PlatformLike(
    IdentityLike[Kind_co, CpuArch_co],
    ConfigHooksLike[Config_contra, Parser_contra, Inputs_contra, Params_contra, IrPriority_co],
    PickersLike[Selector_contra, BackendIn_contra, BackendOut_co, MlaSelector_contra, MlaBackend_co],
    KernelHooksLike[Config_contra],
    DeviceLike,
    CapabilitiesLike,
    Protocol[
        Config_contra,
        Selector_contra,
        BackendIn_contra,
        BackendOut_co,
        Parser_contra,
        MlaSelector_contra,
        MlaBackend_co,
        Inputs_contra,
        Params_contra,
        IrPriority_co,
        Kind_co,
        CpuArch_co,
    ],
):
    """All that an engine requires of a platform; frozen within a major version of the contract.

    The parameters are the engine's own types, in this order: config, attention selector config, attention
    backend as asked for and as answered, argument parser, selector config and backend of latent-attention
    prefill, request inputs, request parameters, IR op priorities, platform enum, CPU architecture enum.
    Left out, what goes in cannot be passed at all and what comes out is an `object`.
    """


class Platform(
    Identity,
    ConfigHooks[Config, Parser, Inputs, Params, IrPriority],
    Pickers[Selector, BackendIn, BackendOut, MlaSelector, MlaBackend, Config],
    KernelHooks[Config],
    Device,
    Capabilities,
    Generic[
        Config,
        Selector,
        BackendIn,
        BackendOut,
        Parser,
        MlaSelector,
        MlaBackend,
        Inputs,
        Params,
        IrPriority,
    ],
):
    """A platform: subclass it, set three attributes and write three methods; all else has a default.

    Mandatory: `_enum`, `device_name`, `device_type`, `check_and_update_config`, `get_attn_backend_cls` and
    `get_device_name`. A class that lacks one is refused where it is defined, by type checkers as well; a
    base of other platforms says `class Base(Platform, abstract=True)`.

    The parameters are the engine's types, as far as a platform sees them: `Platform["EngineConfig"]` in
    quotes does not import them. Left out, they are `Any`.

    A name that neither the platform nor the contract defines is answered by `torch.<device_type>`; see
    `platform_abc.torch_fallback`.
    """

    _is_abstract_base: bool

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: object) -> None:
        """Check a platform where it is defined.

        Args:
            abstract: it is a base of other platforms, which will define what it leaves open.
            **kwargs: keywords of other bases.

        Raises:
            TypeError: a mandatory member is missing; the text names it and says what to write.

        Warns:
            ContractWarning: an override cannot take the calls that an engine makes.
        """
        super().__init_subclass__(**kwargs)
        if abstract:
            # In the class itself, not inherited: what makes a class anew from its namespace, such as
            # `dataclass(slots=True)`, does not repeat the keyword.
            cls._is_abstract_base = True
        _enforce.check_definition(cls, Platform, abstract="_is_abstract_base" in vars(cls))
