"""Plain values of the contract: which kind of platform, which CPU, which device capability.

Nothing here imports torch or any other heavy package.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol


class PlatformEnum(enum.Enum):
    """The kind of a platform.

    A platform that ships outside the engine's own tree is `OOT`, whatever its device is;
    `UNSPECIFIED` is the answer when nothing was detected.
    """

    CUDA = enum.auto()
    ROCM = enum.auto()
    TPU = enum.auto()
    XPU = enum.auto()
    CPU = enum.auto()
    OOT = enum.auto()
    UNSPECIFIED = enum.auto()


class CpuArchEnum(enum.Enum):
    """The architecture of the host processor, as far as kernels distinguish it."""

    X86 = enum.auto()
    ARM = enum.auto()
    POWERPC = enum.auto()
    S390X = enum.auto()
    RISCV = enum.auto()
    OTHER = enum.auto()
    UNKNOWN = enum.auto()


class DeviceCapability(NamedTuple):
    """The compute capability of a device, for example `DeviceCapability(9, 0)`.

    It compares with plain tuples, so `capability >= (8, 0)` reads as meant.
    """

    major: int
    minor: int

    def as_version_str(self) -> str:
        """Return `"major.minor"`."""
        return f"{self.major}.{self.minor}"

    def to_int(self) -> int:
        """Return `major * 10 + minor`, the form that kernel names and build flags use.

        Raises:
            ValueError: `minor` has two digits, so the two numbers would run into each other.
        """
        if not 0 <= self.minor < 10:
            raise ValueError(f"minor of a capability must be 0 to 9 to join both, got {self.minor}")
        return self.major * 10 + self.minor


class DeviceCapabilityLike(Protocol):
    """What an engine reads of a capability; any engine's own tuple type satisfies it."""

    @property
    def major(self) -> int:
        """The generation."""
        ...

    @property
    def minor(self) -> int:
        """The step within the generation."""
        ...

    def to_int(self) -> int:
        """Both numbers in one, `major * 10 + minor`."""
        ...
