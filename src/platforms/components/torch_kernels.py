"""The core kernels in plain torch, for where Triton cannot run; see `core_kernels` for what each one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.nn import functional

KEY, VALUE = 0, 1
"""Which half of a cache's first dimension holds what."""


def slot_mapping(
    query_starts: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    out: torch.Tensor,
) -> None:
    """Compute the slot of each token of a step, and mark what follows them as padding.

    Args:
        query_starts: integers `[R + 1]`.
        positions: integers `[T]` or longer.
        block_table: integers `[R, M]`.
        block_size: tokens in a block.
        out: int64 `[T]` or longer.

    Raises:
        ValueError: there are fewer rows of blocks than requests.
    """
    check_rows(block_table, query_starts.shape[0] - 1)
    places = torch.arange(out.shape[0], device=out.device)
    starts = query_starts.to(places.dtype)
    real = places < starts[-1]
    # A request without tokens starts where the next one does; the last that starts there is meant.
    request = torch.searchsorted(starts, places, right=True).sub(1).clamp(0, max(0, starts.shape[0] - 2))
    position = torch.where(real, functional.pad(positions.long(), (0, out.shape[0]))[: out.shape[0]], 0)
    if block_table.numel() == 0:
        out.fill_(-1)
        return
    block = block_table[request, position // block_size].long()
    out.copy_(torch.where(real, block * block_size + position % block_size, -1))


def write_cache(
    key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Store the keys and values of a step's tokens in their slots.

    Args:
        key: `[T, K, D]`; more rows than there are slots are padding.
        value: as `key`.
        cache: `[2, N, B, K, D]`, of any strides, changed in place; another dtype converts.
        slot_mapping: integers `[T]`; a negative slot is padding.

    Raises:
        ValueError: the shapes do not belong together.
    """
    check_cache(key, value, cache)
    tokens = min(slot_mapping.shape[0], key.shape[0])
    slots, key, value = slot_mapping[:tokens].long(), key[:tokens], value[:tokens]
    kept = slots >= 0
    if not bool(kept.all()):
        slots, key, value = slots[kept], key[kept], value[kept]
    blocks, offsets = slots // cache.shape[2], slots % cache.shape[2]
    for half, new in ((KEY, key), (VALUE, value)):
        cache[half].index_put_((blocks, offsets), new.to(cache.dtype))


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return rows scaled to a root mean square of one, then by `weight`; computed in float32.

    Args:
        x: `[…, width]`.
        weight: `[width]`.
        epsilon: added to the mean square.

    Raises:
        ValueError: the weights do not fit.
    """
    check_weight(x, weight)
    wide = x.float()
    factor = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * factor * weight.float()).to(x.dtype)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """Return `silu(x[…, :width]) * x[…, width:]`; computed in float32.

    Args:
        x: `[…, 2 * width]`.

    Raises:
        ValueError: the last dimension has no two halves.
    """
    half_of(x)
    gate, up = x.float().chunk(2, dim=-1)
    return (functional.silu(gate) * up).to(x.dtype)


def rotary_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return heads whose pairs `(i, i + half)` are rotated; computed in float32.

    Args:
        x: `[T, H, D]`.
        cos: `[T, half]`.
        sin: as `cos`.

    Raises:
        ValueError: the shapes do not belong together.
    """
    check_angles(x, cos, sin)
    half = cos.shape[-1]
    c, s = cos.float().unsqueeze(1), sin.float().unsqueeze(1)
    first, second, rest = x.float().tensor_split((half, 2 * half), dim=-1)
    turned = (torch.addcmul(first * c, second, s, value=-1), torch.addcmul(second * c, first, s), rest)
    return torch.cat(turned, dim=-1).to(x.dtype)


def check_rows(block_table: torch.Tensor, requests: int) -> None:
    """Refuse a block table that lacks requests.

    Raises:
        ValueError: naming the numbers.
    """
    if requests < 0 or block_table.shape[0] < requests:
        raise ValueError(
            f"expected a row of blocks for each of {requests} requests, got {block_table.shape[0]}"
        )


def check_cache(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor) -> None:
    """Refuse keys and values that the cache has no place for.

    Raises:
        ValueError: naming the shapes.
    """
    if key.shape != value.shape or key.dim() != 3 or cache.dim() != 5 or key.shape[1:] != cache.shape[3:]:
        raise ValueError(
            f"expected keys and values [T, K, D] for a cache [2, N, B, K, D], got {tuple(key.shape)}, "
            f"{tuple(value.shape)} and {tuple(cache.shape)}"
        )


def check_weight(x: torch.Tensor, weight: torch.Tensor) -> None:
    """Refuse weights that are not one for each element of a row.

    Raises:
        ValueError: naming the shapes.
    """
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"expected weights [{x.shape[-1]}], got {tuple(weight.shape)}")


def half_of(x: torch.Tensor) -> int:
    """Return half of the last dimension.

    Raises:
        ValueError: it is odd.
    """
    if x.shape[-1] % 2:
        raise ValueError(f"expected a last dimension of two halves, got the shape {tuple(x.shape)}")
    return x.shape[-1] // 2


def check_angles(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Refuse angles that do not belong to these heads.

    Raises:
        ValueError: naming the shapes.
    """
    fits = x.dim() == 3 and cos.shape == sin.shape and cos.dim() == 2
    if not fits or cos.shape[0] != x.shape[0] or 2 * cos.shape[1] > x.shape[2]:
        raise ValueError(
            f"expected heads [T, H, D] and cosines and sines [T, half] with 2 * half <= D, got {tuple(x.shape)}, "
            f"{tuple(cos.shape)} and {tuple(sin.shape)}"
        )


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "slot_mapping": slot_mapping,
    "write_cache": write_cache,
    "rms_norm": rms_norm,
    "silu_and_mul": silu_and_mul,
    "rotary_embedding": rotary_embedding,
}
"""By the name of the core kernel."""
