"""Ops that `torch.compile` does not look into: attention of a layer, and a sum over ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

NAMESPACE: Final = "reference_model"
_SCHEMAS: Final = (
    "attention(Tensor query, Tensor key, Tensor value, Tensor(a!) output, str layer_name) -> ()",
    "all_reduce(Tensor tensor, str group) -> Tensor",
)
_keys: set[str] = set()
# torch leaves its functions without annotations.
_torch_library: Any = torch.library
# A library that is collected takes its ops along.
_library: Any = _torch_library.Library(NAMESPACE, "DEF")
for _schema in _SCHEMAS:
    _library.define(_schema)


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, output: torch.Tensor, layer_name: str
) -> None:
    from reference_model.attention_layer import attend

    attend(layer_name, query, key, value, output)


def _all_reduce(tensor: torch.Tensor, group: str) -> torch.Tensor:
    from reference_model.parallel import reduce_by_name

    return reduce_by_name(tensor, group)


def register_ops(dispatch_key: str) -> None:
    """Make the ops run on a platform's tensors; doing it again changes nothing.

    Registered so, an op costs a few microseconds a call, a tenth of one of `torch.library.custom_op`.

    Args:
        dispatch_key: torch's key for the platform's tensors.
    """
    if dispatch_key in _keys:
        return
    _library.impl("attention", _attention, dispatch_key)
    _library.impl("all_reduce", _all_reduce, dispatch_key)
    _keys.add(dispatch_key)


def _attention_of_shapes(*_: object) -> None:
    """While a graph is traced, only shapes matter."""


def _all_reduce_of_shapes(tensor: torch.Tensor, _: str) -> torch.Tensor:
    return torch.empty_like(tensor)


_library.impl("attention", _attention_of_shapes, "Meta")
_library.impl("all_reduce", _all_reduce_of_shapes, "Meta")

attention: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, str], None] = (
    torch.ops.reference_model.attention.default
)
"""Attend in one layer of the current forward context.

Takes query `[T, H, D]`, key and value `[T, K, D]`, output `[T, H, D]`, which it fills, and the layer's name.
"""
all_reduce: Callable[[torch.Tensor, str], torch.Tensor] = torch.ops.reference_model.all_reduce.default
"""Sum a tensor over the ranks of a named group; the input is left alone."""
