"""What a worker measures of its device's memory: how much there is, and what a step takes."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from platforms.native import NativePlatform


def total_and_used(platform: NativePlatform, device: torch.device) -> tuple[int, int]:
    """Return `(total, used)` in bytes, by all processes that share the device.

    Args:
        platform: the device's platform.
        device: the device.
    """
    visible = device.index or 0
    total = platform.get_device_total_memory(visible)
    if platform.has_runtime("mem_get_info"):
        free, seen = platform.mem_get_info(device)
        # Linked devices may report their pooled memory; what counts is this one's.
        return total, min(total, seen - free)
    return total, int(platform.get_current_memory_usage(device))


def bytes_taken_by(step: Callable[[], object], device: torch.device) -> int:
    """Run something, and return how many bytes it needed beyond what was allocated before.

    Args:
        step: what to run.
        device: where it runs.

    Returns:
        Bytes at the peak: of torch's allocator on an accelerator, of the process on the host.
    """
    runtime: Any = getattr(torch, device.type, None)
    if not hasattr(runtime, "max_memory_allocated"):
        before = _peak_of_process()
        step()
        return max(0, _peak_of_process() - before)
    runtime.synchronize(device)
    runtime.reset_peak_memory_stats(device)
    held: int = runtime.memory_allocated(device)
    step()
    runtime.synchronize(device)
    peak: int = runtime.max_memory_allocated(device)
    return max(0, peak - held)


def _peak_of_process() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
