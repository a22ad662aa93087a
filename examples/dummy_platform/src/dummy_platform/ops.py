"""The custom ops, registered by `torch.library` for the device's dispatch key.

A tensor of a real device carries the key `PrivateUse1`, and torch takes that key's kernel by itself. The
simulated device keeps its tensors in host memory, so the same kernel is registered for `CPU` too.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.nn.functional import scaled_dot_product_attention

NAMESPACE: Final = "dummy_platform"
DISPATCH_KEYS: Final = ("PrivateUse1", "CPU")
SCHEMA: Final = (
    "paged_attention(Tensor query, Tensor key, Tensor value, Tensor(a!) kv_cache, Tensor slot_mapping, "
    "Tensor block_table, Tensor query_start_loc, Tensor seq_lens, float scale, bool causal) -> Tensor"
)

# A registration lasts as long as its library object.
_library: list[torch.library.Library] = []


def register() -> None:
    """Define the op and its kernels; a second call changes nothing."""
    if _library:
        return
    library = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]
    library.define(SCHEMA)  # type: ignore[no-untyped-call]
    for key in DISPATCH_KEYS:
        library.impl("paged_attention", paged_attention, key)  # type: ignore[no-untyped-call]
    # What torch.compile needs to know: the result looks like the query.
    torch.library.register_fake(f"{NAMESPACE}::paged_attention", _fake, lib=library)
    _library.append(library)


def paged_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    causal: bool,
) -> torch.Tensor:
    """Store the keys and values of a step, then attend over what is stored, one request after another.

    Args:
        query: `[T, H, D]`.
        key: `[T, K, D]`.
        value: `[T, K, D]`.
        kv_cache: `[2, N, B, K, D]`, changed in place.
        slot_mapping: `[T]`, `block * B + offset` of each token; negative for padding.
        block_table: `[requests, most blocks of a request]`.
        query_start_loc: `[requests + 1]`, where each request's tokens start.
        seq_lens: `[requests]`, tokens of each request, this step's included.
        scale: factor of the scores.
        causal: a token sees only itself and what comes before.

    Returns:
        `[T, H, D]`.
    """
    kept = slot_mapping >= 0
    for half, new in zip(kv_cache, (key, value), strict=True):
        half.flatten(0, 1)[slot_mapping[kept]] = new[: len(slot_mapping)][kept].to(kv_cache.dtype)
    output = torch.zeros_like(query)
    starts, lengths = query_start_loc.tolist(), seq_lens.tolist()
    for request, length in enumerate(lengths):
        start, end = starts[request], starts[request + 1]
        blocks = block_table[request, : -(-length // kv_cache.shape[2])].long()
        keys, values = (half[blocks].flatten(0, 1)[:length].to(query.dtype) for half in kv_cache)
        # The new tokens are the last of their request: row i sees what comes up to length - new + i.
        seen = torch.ones(end - start, length, dtype=torch.bool, device=query.device)
        output[start:end] = scaled_dot_product_attention(
            query[start:end].transpose(0, 1),
            keys.transpose(0, 1),
            values.transpose(0, 1),
            attn_mask=seen.tril(length - (end - start)) if causal else seen,
            scale=scale,
            enable_gqa=True,
        ).transpose(0, 1)
    return output


def _fake(query: torch.Tensor, *rest: object) -> torch.Tensor:
    return torch.empty_like(query)
