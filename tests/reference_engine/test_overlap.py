"""Facts about kernels beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from platform_abc.components.attention import AttentionMetadata
from reference_engine.overlap import run_both

Use = Callable[..., Any]


def test_on_the_host_both_run_in_order_whatever_the_platform_says(use_platform: Use) -> None:
    """The platform is asked, with no streams, as the host has none."""
    asked: list[tuple[object, object]] = []

    def wants(_cls: type, streams: object, metadata: object) -> bool:
        asked.append((streams, metadata))
        return True

    use_platform(enable_multi_stream_overlap=wants)
    order: list[int] = []
    metadata = AttentionMetadata()
    run_both(lambda: order.append(1), lambda: order.append(2), metadata, torch.device("cpu"))
    assert order == [1, 2]
    assert asked == [(None, metadata)]
