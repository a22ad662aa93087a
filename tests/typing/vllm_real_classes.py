"""Platform classes of a real vLLM against `PlatformLike`: read by type checkers only, never imported.

A line that ends in `# E: mp` must be an error in mypy and in pyright; every other line must be clean. No cast and
no ignore is allowed in this file.
"""

from __future__ import annotations

from typing import Never, Protocol, TypeAlias

from vllm.config import VllmConfig
from vllm.config.kernel import IrOpPriorityConfig
from vllm.inputs import EngineInput
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.cuda import CudaPlatform, NonNvmlCudaPlatform, NvmlCudaPlatform
from vllm.platforms.interface import CpuArchEnum, Platform, PlatformEnum, UnspecifiedPlatform
from vllm.platforms.rocm import RocmPlatform
from vllm.platforms.xpu import XPUPlatform
from vllm.platforms.zen_cpu import ZenCpuPlatform
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.attention.backends.mla.prefill.base import MLAPrefillBackend
from vllm.v1.attention.backends.mla.prefill.selector import MLAPrefillSelectorConfig
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.attention.selector import AttentionSelectorConfig

from platform_abc.platform import PlatformLike

VllmPlatform: TypeAlias = PlatformLike[
    VllmConfig,
    AttentionSelectorConfig,
    AttentionBackendEnum,
    AttentionBackendEnum,
    FlexibleArgumentParser,
    MLAPrefillSelectorConfig,
    MLAPrefillBackend,
    EngineInput,
    SamplingParams | PoolingParams,
    IrOpPriorityConfig,
    PlatformEnum,
    CpuArchEnum,
]


def takes(platform: VllmPlatform) -> None:
    """Stand for the engine, which takes any platform of its own types."""


takes(Platform())
takes(UnspecifiedPlatform())
takes(CpuPlatform())
takes(ZenCpuPlatform())
takes(NvmlCudaPlatform())
takes(NonNvmlCudaPlatform())
takes(CudaPlatform())
takes(RocmPlatform())
takes(XPUPlatform())


# Controls: with one parameter wrong, each of them is refused, so the lines above say something.


class Other:
    """Of no use to any platform."""


def wrong_config(platform: PlatformLike[Other]) -> None: ...
def wrong_selector(platform: PlatformLike[Never, Other]) -> None: ...
def wrong_backend_in(platform: PlatformLike[Never, Never, Other]) -> None: ...
def wrong_backend_out(platform: PlatformLike[Never, Never, Never, Other]) -> None: ...
def wrong_parser(platform: PlatformLike[Never, Never, Never, object, Other]) -> None: ...
def wrong_mla_selector(platform: PlatformLike[Never, Never, Never, object, Never, Other]) -> None: ...
def wrong_mla_backend(platform: PlatformLike[Never, Never, Never, object, Never, Never, Other]) -> None: ...


class WrongInputs(Protocol):
    """Requests of another engine."""

    def validate_request(self, inputs: Other, params: Other, /) -> None: ...


class WrongIrPriority(Protocol):
    """Priorities of another engine."""

    def get_default_ir_op_priority(self, config: VllmConfig, /) -> Other: ...


class WrongEnum(Protocol):
    """Kinds of another engine."""

    @property
    def _enum(self) -> Other: ...


class WrongCpuArch(Protocol):
    """Processors of another engine."""

    def get_cpu_architecture(self) -> Other: ...


class WrongAttribute(Protocol):
    """A number where vLLM has a text."""

    @property
    def device_type(self) -> int: ...


class WrongName(Protocol):
    """A number where vLLM answers with a text."""

    def get_punica_wrapper(self) -> int: ...


class WrongDtypes(Protocol):
    """A text where vLLM answers with dtypes."""

    @property
    def supported_dtypes(self) -> str: ...


class NoSuchMember(Protocol):
    """A member that no platform of vLLM has."""

    def get_no_such_thing(self) -> str: ...


def wrong_inputs(platform: WrongInputs) -> None: ...
def wrong_ir_priority(platform: WrongIrPriority) -> None: ...
def wrong_enum(platform: WrongEnum) -> None: ...
def wrong_cpu_arch(platform: WrongCpuArch) -> None: ...
def wrong_attribute(platform: WrongAttribute) -> None: ...
def wrong_name(platform: WrongName) -> None: ...
def wrong_dtypes(platform: WrongDtypes) -> None: ...
def no_such_member(platform: NoSuchMember) -> None: ...


wrong_config(CpuPlatform())  # E: mp
wrong_config(ZenCpuPlatform())  # E: mp
wrong_config(NvmlCudaPlatform())  # E: mp
wrong_config(NonNvmlCudaPlatform())  # E: mp
wrong_config(RocmPlatform())  # E: mp
wrong_config(XPUPlatform())  # E: mp
wrong_selector(CpuPlatform())  # E: mp
wrong_selector(ZenCpuPlatform())  # E: mp
wrong_selector(NvmlCudaPlatform())  # E: mp
wrong_selector(NonNvmlCudaPlatform())  # E: mp
wrong_selector(RocmPlatform())  # E: mp
wrong_selector(XPUPlatform())  # E: mp
wrong_backend_in(CpuPlatform())  # E: mp
wrong_backend_in(ZenCpuPlatform())  # E: mp
wrong_backend_in(NvmlCudaPlatform())  # E: mp
wrong_backend_in(NonNvmlCudaPlatform())  # E: mp
wrong_backend_in(RocmPlatform())  # E: mp
wrong_backend_in(XPUPlatform())  # E: mp
wrong_backend_out(CpuPlatform())  # E: mp
wrong_backend_out(ZenCpuPlatform())  # E: mp
wrong_backend_out(NvmlCudaPlatform())  # E: mp
wrong_backend_out(NonNvmlCudaPlatform())  # E: mp
wrong_backend_out(RocmPlatform())  # E: mp
wrong_backend_out(XPUPlatform())  # E: mp
wrong_parser(CpuPlatform())  # E: mp
wrong_parser(ZenCpuPlatform())  # E: mp
wrong_parser(NvmlCudaPlatform())  # E: mp
wrong_parser(NonNvmlCudaPlatform())  # E: mp
wrong_parser(RocmPlatform())  # E: mp
wrong_parser(XPUPlatform())  # E: mp
wrong_mla_selector(CpuPlatform())  # E: mp
wrong_mla_selector(ZenCpuPlatform())  # E: mp
wrong_mla_selector(NvmlCudaPlatform())  # E: mp
wrong_mla_selector(NonNvmlCudaPlatform())  # E: mp
wrong_mla_selector(RocmPlatform())  # E: mp
wrong_mla_selector(XPUPlatform())  # E: mp
wrong_mla_backend(CpuPlatform())  # E: mp
wrong_mla_backend(ZenCpuPlatform())  # E: mp
wrong_mla_backend(NvmlCudaPlatform())  # E: mp
wrong_mla_backend(NonNvmlCudaPlatform())  # E: mp
wrong_mla_backend(RocmPlatform())  # E: mp
wrong_mla_backend(XPUPlatform())  # E: mp
wrong_inputs(CpuPlatform())  # E: mp
wrong_inputs(ZenCpuPlatform())  # E: mp
wrong_inputs(NvmlCudaPlatform())  # E: mp
wrong_inputs(NonNvmlCudaPlatform())  # E: mp
wrong_inputs(RocmPlatform())  # E: mp
wrong_inputs(XPUPlatform())  # E: mp
wrong_ir_priority(CpuPlatform())  # E: mp
wrong_ir_priority(ZenCpuPlatform())  # E: mp
wrong_ir_priority(NvmlCudaPlatform())  # E: mp
wrong_ir_priority(NonNvmlCudaPlatform())  # E: mp
wrong_ir_priority(RocmPlatform())  # E: mp
wrong_ir_priority(XPUPlatform())  # E: mp
wrong_enum(CpuPlatform())  # E: mp
wrong_enum(ZenCpuPlatform())  # E: mp
wrong_enum(NvmlCudaPlatform())  # E: mp
wrong_enum(NonNvmlCudaPlatform())  # E: mp
wrong_enum(RocmPlatform())  # E: mp
wrong_enum(XPUPlatform())  # E: mp
wrong_cpu_arch(CpuPlatform())  # E: mp
wrong_cpu_arch(ZenCpuPlatform())  # E: mp
wrong_cpu_arch(NvmlCudaPlatform())  # E: mp
wrong_cpu_arch(NonNvmlCudaPlatform())  # E: mp
wrong_cpu_arch(RocmPlatform())  # E: mp
wrong_cpu_arch(XPUPlatform())  # E: mp
wrong_attribute(CpuPlatform())  # E: mp
wrong_attribute(ZenCpuPlatform())  # E: mp
wrong_attribute(NvmlCudaPlatform())  # E: mp
wrong_attribute(NonNvmlCudaPlatform())  # E: mp
wrong_attribute(RocmPlatform())  # E: mp
wrong_attribute(XPUPlatform())  # E: mp
wrong_name(CpuPlatform())  # E: mp
wrong_name(ZenCpuPlatform())  # E: mp
wrong_name(NvmlCudaPlatform())  # E: mp
wrong_name(NonNvmlCudaPlatform())  # E: mp
wrong_name(RocmPlatform())  # E: mp
wrong_name(XPUPlatform())  # E: mp
wrong_dtypes(CpuPlatform())  # E: mp
wrong_dtypes(ZenCpuPlatform())  # E: mp
wrong_dtypes(NvmlCudaPlatform())  # E: mp
wrong_dtypes(NonNvmlCudaPlatform())  # E: mp
wrong_dtypes(RocmPlatform())  # E: mp
wrong_dtypes(XPUPlatform())  # E: mp

# mypy takes vLLM's visible `__getattr__` for every member, so it cannot see that one is missing; pyright can, and a
# test looks at the classes themselves.
no_such_member(CpuPlatform())  # E: p
no_such_member(RocmPlatform())  # E: p
