"""The engine's own types, as type parameters of the contract.

The contract does not know the engine's config, parser or request classes; an engine names its own:
`PlatformLike[MyConfig, MySelector, …]`. Two families, because a bare `PlatformLike` in an engine should
be strict and a bare `class Mine(Platform)` in a vendor package should be lenient:

* of the Protocols (suffix `_contra`, `_co`): what goes in defaults to `Never`, what comes out to `object`;
* of the ABCs (no suffix): everything defaults to `Any`.
"""

from __future__ import annotations

from typing import Any, Never

# The stock TypeVar knows `default` from Python 3.13 on only.
from typing_extensions import TypeVar

Config_contra = TypeVar("Config_contra", contravariant=True, default=Never)
Selector_contra = TypeVar("Selector_contra", contravariant=True, default=Never)
# The attention backend goes in (the user's choice) and comes out (the answer). Two parameters, because one
# parameter for both would be invariant.
BackendIn_contra = TypeVar("BackendIn_contra", contravariant=True, default=Never)
BackendOut_co = TypeVar("BackendOut_co", covariant=True, default=object)
Parser_contra = TypeVar("Parser_contra", contravariant=True, default=Never)
MlaSelector_contra = TypeVar("MlaSelector_contra", contravariant=True, default=Never)
MlaBackend_co = TypeVar("MlaBackend_co", covariant=True, default=object)
Inputs_contra = TypeVar("Inputs_contra", contravariant=True, default=Never)
Params_contra = TypeVar("Params_contra", contravariant=True, default=Never)
IrPriority_co = TypeVar("IrPriority_co", covariant=True, default=object)
Kind_co = TypeVar("Kind_co", covariant=True, default=object)
CpuArch_co = TypeVar("CpuArch_co", covariant=True, default=object)

Config = TypeVar("Config", default=Any)
Selector = TypeVar("Selector", default=Any)
BackendIn = TypeVar("BackendIn", default=Any)
BackendOut = TypeVar("BackendOut", default=Any)
Parser = TypeVar("Parser", default=Any)
MlaSelector = TypeVar("MlaSelector", default=Any)
MlaBackend = TypeVar("MlaBackend", default=Any)
Inputs = TypeVar("Inputs", default=Any)
Params = TypeVar("Params", default=Any)
IrPriority = TypeVar("IrPriority", default=Any)
