"""Facts about the ops that `torch.compile` does not look into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.requests import SamplingParams
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from reference_model import attention_layer, opaque_ops

Use = Callable[..., Any]


@pytest.mark.parametrize("opaque", [True, False])
def test_attention_goes_through_the_op_where_the_platform_asks(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch, opaque: bool
) -> None:
    """Else the layer calls the backend itself."""
    calls: list[str] = []
    monkeypatch.setattr(attention_layer, "attention", lambda *args: calls.append(args[-1]))
    use_platform(opaque_attention_op=lambda _cls: opaque)
    with Engine(EngineArgs(dtype="float32")) as engine:
        calls.clear()
        engine.generate([[1]], SamplingParams(max_tokens=1))
    assert calls == (["layers.0.attention", "layers.1.attention"] if opaque else [])


def test_ops_are_registered_under_a_key_once_and_know_their_shapes() -> None:
    """Again is no error; while a graph is traced only shapes count."""
    opaque_ops.register_ops("CPU")
    opaque_ops.register_ops("CPU")
    here = torch.empty(3, 2, device="meta")
    assert opaque_ops.all_reduce(here, "any").shape == (3, 2)
    opaque_ops.attention(here, here, here, here, "any")
