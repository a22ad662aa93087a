"""The CPU platform on AMD Zen processors, where the library zentorch supplies faster kernels."""

from __future__ import annotations

import functools
import importlib
import logging

from platforms.cpu import CpuPlatform

_logger = logging.getLogger(__name__)


class ZenCpuPlatform(CpuPlatform):
    """The CPU platform with AMD's kernels, which `zentorch` registers when it is imported.

    Everything else is the CPU platform's. Detection names this class only where the library loads.
    """

    def is_zen_cpu(self) -> bool:
        """Say yes; `is_cpu` says yes too."""
        return True

    @classmethod
    def import_kernels(cls) -> None:
        """Import zentorch; without it torch's own kernels are used, with one warning."""
        _import_zentorch()

    @classmethod
    def _dtype_names(cls) -> tuple[str, ...]:
        # Zen multiplies bfloat16 and float32; float16 would be converted back and forth.
        return ("bfloat16", "float32")


@functools.cache
def _import_zentorch() -> None:
    try:
        importlib.import_module("zentorch")
    except (ImportError, OSError) as error:
        # An OSError is a build that does not fit the installed torch.
        _logger.warning(
            "zentorch cannot be imported (%s), so torch's own kernels are used; to use AMD's, install a "
            "build that fits the installed torch: pip install zentorch",
            error,
        )
