"""Two kernels that do not need each other: beside each other where the platform wants that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionMetadata

A = TypeVar("A")
B = TypeVar("B")
_side_streams: dict[torch.device, Any] = {}


def run_both(
    first: Callable[[], A], second: Callable[[], B], metadata: AttentionMetadata, device: torch.device
) -> tuple[A, B]:
    """Run both, the second on a stream of its own where the device has streams and the platform says so.

    Args:
        first: some kernels.
        second: some others, which read nothing that the first write.
        metadata: of the step, by which the platform decides.
        device: where they run.

    Returns:
        Both results, ready for the current stream.
    """
    from platforms import current_platform

    streams: list[Any] | None = None
    if device.type != "cpu":
        streams = [_side_streams.setdefault(device, torch.Stream(device))]
    if not current_platform.enable_multi_stream_overlap(streams, metadata) or not streams:
        return first(), second()
    side, current = streams[0], torch.accelerator.current_stream(device)
    side.wait_stream(current)
    with side:
        beside = second()
    before = first()
    current.wait_stream(side)
    return before, beside
