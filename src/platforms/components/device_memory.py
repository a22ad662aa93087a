"""What a worker measures of its device's memory: how much there is, and what a step takes."""

from __future__ import annotations

import logging
import math
import re
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from platform_abc.errors import NotSupported
from platforms.host_memory import read_text

if TYPE_CHECKING:
    from platforms.native import NativePlatform

logger = logging.getLogger(__name__)

PROC: Final = Path("/proc/self")
"""What the kernel says of this process."""


def total_and_used(platform: NativePlatform, visible: int) -> tuple[int, int]:
    """Return `(total, used)` in bytes, by all processes that share the device.

    Args:
        platform: the device's platform.
        visible: the device's visible id. It is no torch device, because the host's has no index for a
            memory node.

    Raises:
        TypeError: a hook of the platform answered something else than bytes.
    """
    total = _bytes(platform, "get_device_total_memory", platform.get_device_total_memory(visible))
    if not platform.has_runtime("mem_get_info"):
        try:
            usage = platform.get_current_memory_usage(visible)
        except NotSupported:
            logger.info(
                "%s tells neither mem_get_info nor get_current_memory_usage: all of the device counts as free",
                type(platform).__name__,
            )
            return total, 0
        return total, _bytes(platform, "get_current_memory_usage", usage)
    free, seen = _pair(platform, platform.mem_get_info(visible))
    # Linked devices may report their pooled memory; what counts is this one's.
    return total, min(total, seen - free)


def _pair(platform: NativePlatform, answer: object) -> Sequence[int]:
    """Return what `mem_get_info` answered, free and total bytes.

    Raises:
        TypeError: it is something else.
    """
    shown = repr(answer)
    if isinstance(answer, (tuple, list)):
        pair = cast("Sequence[object]", answer)
        if len(pair) == 2:
            return [_bytes(platform, "mem_get_info", one) for one in pair]
    raise _unexpected(platform, "mem_get_info", shown, "free and total bytes")


def _bytes(platform: NativePlatform, member: str, answer: object) -> int:
    """Return a hook's answer as a number of bytes.

    Raises:
        TypeError: it is none; the text names the hook.
    """
    # An infinite number, or none at all, is no amount of memory either.
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not 0 <= answer < math.inf:
        raise _unexpected(platform, member, repr(answer), "a number of bytes")
    return int(answer)


def _unexpected(platform: NativePlatform, member: str, shown: str, expected: str) -> TypeError:
    return TypeError(f"{member} of {type(platform).__name__} answered {shown}; expected {expected}")


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
        _forget_peak()
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


def _forget_peak() -> None:
    """Let the kernel count this process's peak from now on, where it can; loading had one of its own."""
    try:
        (PROC / "clear_refs").write_text("5")
    except OSError:
        # Not Linux, or not allowed: a step that stays below the earlier peak then counts as nothing.
        return


def _peak_of_process() -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", read_text(PROC / "status") or "", re.MULTILINE)
    if found:
        return int(found.group(1)) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
