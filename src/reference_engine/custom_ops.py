"""The engine's custom ops. Importing this module imports the platform's compiled kernels.

So it is imported late, by the worker, never by another module of the engine at import time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from platforms import current_platform
from reference_engine.hook_log import named

with named("import_kernels", current_platform):
    current_platform.import_kernels()


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, output: torch.Tensor, layer_name: str
) -> None:
    from reference_engine.attention_layer import attend

    attend(layer_name, query, key, value, output)


def _attention_of_shapes(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, output: torch.Tensor, layer_name: str
) -> None:
    del query, key, value, output, layer_name


attention = torch.library.custom_op("reference_engine::attention", _attention, mutates_args=("output",))
"""Attend in one layer of the current forward context, opaque to `torch.compile`.

Takes query `[T, H, D]`, key and value `[T, K, D]`, output `[T, H, D]`, which it fills, and the layer's name.
"""
# torch's own annotation of this one is partly unknown to checkers.
_register_fake: Callable[..., object] = getattr(torch.library, "register_fake")  # noqa: B009
_register_fake("reference_engine::attention", _attention_of_shapes)
