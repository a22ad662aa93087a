"""Loading and starting the kernels of `triton_kernels` from typed code."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Protocol, cast

from platform_abc.errors import MissingDependency
from platforms.common import is_installed


class Kernel(Protocol):
    """A kernel: `kernel[grid](arguments…)` starts one program for each place of the grid."""

    def __getitem__(self, grid: tuple[int, ...], /) -> Callable[..., object]:
        """Return what starts the kernel on a grid."""
        ...


@functools.cache
def kernel(module: str, name: str) -> Kernel:
    """Return a kernel of `triton_kernels`.

    Args:
        module: its module there.
        name: its name.

    Raises:
        MissingDependency: Triton is not installed.
    """
    if not is_installed("triton"):
        raise MissingDependency(f"the Triton kernel {name}", __name__, "platform-abc[triton]")
    loaded = importlib.import_module(f"platforms.components.triton_kernels.{module}")
    return cast("Kernel", getattr(loaded, name))


def ceiling(number: int, divisor: int) -> int:
    """Return how many groups of `divisor` hold `number` things."""
    return -(-number // divisor)


def power_of_two(number: int, *, at_least: int = 1) -> int:
    """Return the smallest power of two that is not below either number, as sizes of blocks must be."""
    return max(at_least, 1 << max(0, number - 1).bit_length())
