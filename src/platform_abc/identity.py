"""Identity: what a platform is called, under which keys others know it, and which kind it is.

Engines read these members everywhere, in every process, and some of them while the engine is still being
imported. So they are plain attributes and cheap predicates.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Final, Protocol

from platform_abc._required import Required
from platform_abc._typevars import CpuArch_co, Kind_co
from platform_abc.types import CpuArchEnum, PlatformEnum

if TYPE_CHECKING:
    from collections.abc import Sequence

# Reading a member of an Enum class costs as much as the whole rest of a predicate.
_CUDA: Final = PlatformEnum.CUDA
_ROCM: Final = PlatformEnum.ROCM
_TPU: Final = PlatformEnum.TPU
_XPU: Final = PlatformEnum.XPU
_CPU: Final = PlatformEnum.CPU
_OOT: Final = PlatformEnum.OOT
_UNSPECIFIED: Final = PlatformEnum.UNSPECIFIED


class IdentityLike(Protocol[Kind_co, CpuArch_co]):
    """What an engine requires of a platform's identity; frozen within a major version of the contract."""

    @property
    def _enum(self) -> Kind_co:
        """The kind of platform, a member of the engine's enum."""
        ...

    @property
    def device_name(self) -> str:
        """The short name for messages and table keys, such as `"cuda"`."""
        ...

    @property
    def device_type(self) -> str:
        """What `torch.device()` takes, and the name of the module `torch.<device_type>`."""
        ...

    @property
    def dispatch_key(self) -> str:
        """PyTorch's dispatch key, under which custom operators are registered."""
        ...

    @property
    def ray_device_key(self) -> str:
        """The name of the resource in Ray, such as `"GPU"`; empty if Ray cannot be used."""
        ...

    @property
    def device_control_env_var(self) -> str:
        """The environment variable that selects devices, such as `"CUDA_VISIBLE_DEVICES"`."""
        ...

    @property
    def ray_noset_device_env_vars(self) -> Sequence[str]:
        """Variables to set to 1 so that Ray leaves the device selection alone."""
        ...

    @property
    def simple_compile_backend(self) -> str:
        """The `torch.compile` backend for small standalone functions."""
        ...

    @property
    def dist_backend(self) -> str:
        """The `torch.distributed` backend, such as `"nccl"`; empty if there is none."""
        ...

    @property
    def supported_quantization(self) -> Sequence[str]:
        """Quantization methods that the platform runs; empty allows all."""
        ...

    @property
    def additional_env_vars(self) -> Sequence[str]:
        """More variables that the engine copies to workers on other machines."""
        ...

    def is_cuda(self) -> bool:
        """Say whether the kind is CUDA."""
        ...

    def is_rocm(self) -> bool:
        """Say whether the kind is ROCm."""
        ...

    def is_tpu(self) -> bool:
        """Say whether the kind is TPU."""
        ...

    def is_xpu(self) -> bool:
        """Say whether the kind is XPU."""
        ...

    def is_cpu(self) -> bool:
        """Say whether the kind is CPU."""
        ...

    def is_zen_cpu(self) -> bool:
        """Say whether it is the AMD Zen variant of the CPU platform."""
        ...

    def is_out_of_tree(self) -> bool:
        """Say whether the platform ships outside the engine's own tree."""
        ...

    def is_unspecified(self) -> bool:
        """Say whether no device was detected."""
        ...

    def is_cuda_alike(self) -> bool:
        """Say whether code written for CUDA's API runs: CUDA or ROCm."""
        ...

    def uses_host_device_handling(self) -> bool:
        """Say whether the engine leaves the config's device unset."""
        ...

    def get_cpu_architecture(self) -> CpuArch_co:
        """Return the architecture of the host processor, a member of the engine's enum."""
        ...


if TYPE_CHECKING:

    class IdentityRequired(Protocol):
        """The attributes that have no default: a checker reports the platform that forgets one."""

        _enum: PlatformEnum
        device_name: str
        device_type: str

else:
    # A plain ABC at run time: a Protocol among the bases would bring its own metaclass, which conflicts
    # with a vendor's and slows isinstance down.
    class IdentityRequired(ABC):  # noqa: B024  the marks are abstract, by themselves
        """The attributes that have no default: ABCMeta refuses the platform that forgets one."""

        _enum = Required("_enum = PlatformEnum.OOT")
        device_name = Required('device_name = "mydevice"')
        device_type = Required('device_type = "mydevice"')


class Identity(IdentityRequired, ABC):
    """The identity of a platform.

    Set the attributes in the class body, with a plain value or a plain annotation: they are read on the
    class too, so neither a property nor an assignment in `__init__` will do, and a checker refuses
    `ClassVar`. Mandatory:

    * `_enum`: a member of `PlatformEnum`; a platform outside the engine's tree says `PlatformEnum.OOT`;
    * `device_name`: the short name for messages and table keys;
    * `device_type`: what `torch.device()` takes; `torch.<device_type>` also answers every name that the
      platform does not define.
    """

    dispatch_key: str = "CPU"
    """PyTorch's dispatch key for custom operators. `"CPU"` serves devices that PyTorch has no key for."""

    ray_device_key: str = ""
    """The resource's name in Ray; empty says that Ray cannot be used."""

    device_control_env_var: str = "PLATFORM_ABC_DEVICE_CONTROL_ENV_VAR_PLACEHOLDER"
    """The environment variable that selects the devices a process sees, as comma-separated ids.

    The default is a name that nobody sets, so a platform without such a variable sees all its devices.
    """

    # Lists, because vendors write lists, and a checker would refuse a list over a declared tuple. Assign a
    # new one in the class; the shared defaults must stay empty.
    ray_noset_device_env_vars: list[str] = []  # noqa: RUF012
    """Variables to set to 1 so that Ray does not change the device selection."""

    simple_compile_backend: str = "inductor"
    """The `torch.compile` backend for small standalone functions; the model has its own."""

    dist_backend: str = ""
    """The `torch.distributed` backend between devices; empty if there is none."""

    supported_quantization: list[str] = []  # noqa: RUF012
    """Quantization methods that run here; empty allows all. Read by `verify_quantization`."""

    additional_env_vars: list[str] = []  # noqa: RUF012
    """More variables that the engine copies to workers on other machines."""

    def is_cuda(self) -> bool:
        """Say whether the kind is CUDA."""
        return self._enum is _CUDA

    def is_rocm(self) -> bool:
        """Say whether the kind is ROCm."""
        return self._enum is _ROCM

    def is_tpu(self) -> bool:
        """Say whether the kind is TPU."""
        return self._enum is _TPU

    def is_xpu(self) -> bool:
        """Say whether the kind is XPU."""
        return self._enum is _XPU

    def is_cpu(self) -> bool:
        """Say whether the kind is CPU."""
        return self._enum is _CPU

    def is_zen_cpu(self) -> bool:
        """Say whether it is the AMD Zen variant of the CPU platform; no by default."""
        return False

    def is_out_of_tree(self) -> bool:
        """Say whether the platform ships outside the engine's own tree."""
        return self._enum is _OOT

    def is_unspecified(self) -> bool:
        """Say whether no device was detected."""
        return self._enum is _UNSPECIFIED

    def is_cuda_alike(self) -> bool:
        """Say whether code written for CUDA's API runs: CUDA or ROCm. It asks no driver."""
        return self._enum is _CUDA or self._enum is _ROCM

    def uses_host_device_handling(self) -> bool:
        """Say whether the engine leaves `device_config.device` unset, as on TPU.

        Called in the front end while the config is built.
        """
        return self.is_tpu()

    @classmethod
    def get_cpu_architecture(cls) -> CpuArchEnum:
        """Return the architecture of the host processor, from what the operating system reports.

        Called in every process, by kernels and workers that differ by processor.

        Returns:
            `OTHER` for a name that is none of the known ones, `UNKNOWN` when there is no name.
        """
        import platform

        machine = platform.machine().lower()
        if machine in {"x86_64", "amd64", "x86", "i386", "i486", "i586", "i686"}:
            return CpuArchEnum.X86
        for prefix, architecture in _ARCHITECTURE_PREFIXES:
            if machine.startswith(prefix):
                return architecture
        return CpuArchEnum.OTHER if machine else CpuArchEnum.UNKNOWN


_ARCHITECTURE_PREFIXES: Final = (
    ("arm", CpuArchEnum.ARM),
    ("aarch", CpuArchEnum.ARM),
    ("ppc", CpuArchEnum.POWERPC),
    ("powerpc", CpuArchEnum.POWERPC),
    ("s390x", CpuArchEnum.S390X),
    ("riscv", CpuArchEnum.RISCV),
)
