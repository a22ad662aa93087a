"""Tensors as plain values, for comparisons and sentences."""

from __future__ import annotations

from typing import Any


def numbers(tensor: Any) -> list[float]:
    """The elements of a tensor in a row, in host memory.

    Args:
        tensor: of any shape; torch leaves the element type of its lists open.
    """
    found: list[float] = tensor.double().cpu().flatten().tolist()
    return found
