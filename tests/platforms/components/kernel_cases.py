"""What the Triton kernels must compute, case by case; each is run in the interpreter and, where there is one, on a GPU.

A case is a function of the device. It raises `AssertionError` where a kernel differs from torch, or from
attention written out in float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from platform_abc.components.attention import CommonAttentionMetadata
from platform_abc.components.lora import LoRAMapping
from platforms.components import core_kernels, paged_sdpa, paged_triton, torch_kernels
from platforms.components.lora_torch import TorchPunicaWrapper
from platforms.components.lora_triton import TritonPunicaWrapper
from platforms.components.triton_attention import TritonAttentionBackend
from tests.platforms.components.test_paged_sdpa import RAGGED, Batch

Case = Callable[[torch.device], None]

CASES: dict[str, Case] = {}

# One unit in the last place: the interpreter cuts bfloat16 off where a device rounds it.
ROUNDING = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
DTYPES = list(ROUNDING)


def case(name: str, *args: Any, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a case: the decorated function with these arguments after the device."""

    def add(body: Callable[..., None]) -> Callable[..., None]:
        assert name not in CASES, name
        CASES[name] = lambda device: body(device, *args, **options)
        return body

    return add


def close(got: torch.Tensor, expected: torch.Tensor, *, sums: float = 0.0) -> None:
    """Compare by the dtype of `got`; `sums` is what long sums in float32 may add."""
    limit = ROUNDING[got.dtype]
    torch.testing.assert_close(
        got.double().cpu(), expected.double().cpu(), rtol=limit + sums, atol=limit / 8 + sums
    )


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# --- attention


def attention(
    device: torch.device,
    lengths: list[tuple[int, int]],
    *,
    causal: bool = True,
    window: int | None = None,
    spread: tuple[int, ...] | None = None,
    **shape: Any,
) -> None:
    batch = Batch(lengths, dims=spread, **shape)
    query = batch.query.to(device)
    out = torch.full_like(query, math.nan)
    cache = batch.cache.to(device)
    if spread is not None:
        query = query.transpose(0, 2).contiguous().transpose(0, 2)
        out = torch.full((*query.shape[:2], 3 * query.shape[2]), math.nan, dtype=query.dtype, device=device)
        out = out[:, :, 5 : 5 + query.shape[2]]
    paged_triton.attend(
        query,
        cache,
        batch.table.to(device),
        torch.tensor(batch.starts, dtype=torch.int32, device=device),
        torch.tensor([total for _, total in lengths], dtype=torch.int32, device=device),
        out,
        scale=batch.scale,
        max_query_len=max((new for new, _ in lengths), default=0),
        causal=causal,
        window=window,
    )
    close(out, batch.expected(causal=causal, window=window), sums=1e-5)


DECODES = [(1, 9), (1, 1), (1, 23), (1, 4)]
for dtype in DTYPES:
    for block in (1, 7, 16):
        case(f"attention {dtype} block {block}", RAGGED, block=block, dtype=dtype)(attention)
    case(f"attention {dtype} head 80 decode", DECODES, size=80, dtype=dtype)(attention)
    case(f"attention {dtype} window", RAGGED, block=3, window=6, dtype=dtype)(attention)
for window in (None, 1, 3):
    case(f"attention both ways window {window}", [(5, 5), (4, 9)], causal=False, window=window)(attention)
case("attention long", [(70, 150), (1, 200)], size=8, window=None)(attention)
case("attention long window", [(70, 150), (1, 200)], size=8, window=90)(attention)
for heads, kv_heads in ((1, 1), (4, 4), (6, 2), (7, 1), (20, 1)):
    case(f"attention heads {heads} over {kv_heads}", RAGGED, heads=heads, kv_heads=kv_heads)(attention)
for size in (1, 24, 80, 128, 256):
    case(f"attention head size {size}", [(3, 5), (1, 7)], size=size)(attention)
for order in ((0, 1, 3, 2, 4), (2, 4, 3, 0, 1)):
    case(f"attention strides {order}", RAGGED, spread=order)(attention)
case("attention one token", [(1, 1)])(attention)
case("attention no request", [])(attention)
case("attention empty requests", [(0, 5), (2, 3), (0, 0), (1, 4)])(attention)


@case("attention padding request")
def padding_request(device: torch.device) -> None:
    batch = Batch([(1, 3), (2, 2)])
    out = torch.full_like(batch.query, math.nan, device=device)
    paged_triton.attend(
        batch.query.to(device),
        batch.cache.to(device),
        batch.table.to(device),
        torch.tensor(batch.starts, device=device),
        torch.tensor([3, 0], device=device),
        out,
        scale=batch.scale,
        max_query_len=2,
    )
    close(out[:1], batch.expected()[:1], sums=1e-5)
    assert torch.equal(out[1:].cpu(), torch.zeros(2, 4, 16))


@case("attention cache of another dtype", torch.bfloat16)
@case("attention float16 cache", torch.float16)
def mixed(device: torch.device, dtype: torch.dtype) -> None:
    batch = Batch(DECODES, dtype=dtype)
    out = torch.empty(batch.query.shape, device=device)
    paged_triton.attend(
        batch.query.float().to(device),
        batch.cache.to(device),
        batch.table.to(device),
        torch.tensor(batch.starts, device=device),
        torch.tensor([total for _, total in DECODES], device=device),
        out,
        scale=batch.scale,
        max_query_len=1,
    )
    close(out, batch.expected(), sums=1e-5)


class Layer:
    layer_name = "layer"


@case("attention backend writes, attends and pads")
def backend(device: torch.device) -> None:
    heads, kv_heads, size, block = 6, 2, 80, 7
    spec = type("Spec", (), {"block_size": block})()
    build = TritonAttentionBackend.get_builder_cls()(spec, ["layer"], None, device)  # type: ignore[arg-type]
    impl = TritonAttentionBackend.get_impl_cls()(heads, size, size**-0.5, kv_heads, sliding_window=5)
    shape = TritonAttentionBackend.get_kv_cache_shape(4, block, kv_heads, size)
    cache = torch.full(shape, math.nan, device=device)
    expected = torch.full(shape, math.nan)
    key, value, query = (
        random(13, kv_heads, size),
        random(13, kv_heads, size, seed=1),
        random(13, heads, size),
    )
    table = torch.tensor([[3, 1, -7], [2, 99, 99]], dtype=torch.int32)
    for starts, lengths, slots in (
        ([0, 9, 11], [9, 2], [21, 22, 23, 24, 25, 26, 27, 7, 8, 14, 15, -1, -1]),
        ([0, 1, 2], [10, 3], [9, 16, -1]),
    ):
        tokens, real = len(slots), starts[-1]
        out = torch.full((tokens, heads, size), math.nan, device=device)
        metadata = build.build(
            0,
            CommonAttentionMetadata(
                query_start_loc=torch.tensor(starts, dtype=torch.int32, device=device),
                seq_lens=torch.tensor(lengths, dtype=torch.int32, device=device),
                block_table=table.to(device),
                slot_mapping=torch.tensor(slots, device=device),
                num_reqs=2,
                num_actual_tokens=real,
                max_query_len=starts[1],
                max_seq_len=max(lengths),
            ),
        )
        q, k, v = (each[:tokens].to(device) for each in (query, key, value))
        assert impl.forward(Layer(), q, k, v, cache, metadata, out) is out
        reference = torch.full_like(query[:tokens], math.nan)
        written = paged_sdpa.written_slots(torch.tensor(slots))
        paged_sdpa.write_cache(key[:tokens], value[:tokens], expected, *written)
        paged_sdpa.attend(
            query[:real], expected, table, starts, lengths, reference[:real], scale=size**-0.5, window=5
        )
        torch.testing.assert_close(cache.cpu(), expected, equal_nan=True, rtol=0, atol=0)
        close(out[:real], reference[:real], sums=1e-5)
        assert not out[real:].any()
    profile = impl.forward(Layer(), query.to(device), key.to(device), value.to(device), cache, None)
    assert not profile.any()


# --- core kernels


def written(
    device: torch.device,
    size: int,
    block: int,
    slots: list[int],
    *,
    order: tuple[int, ...] | None = None,
    dtype: torch.dtype = torch.float32,
    cache_dtype: torch.dtype = torch.float32,
) -> None:
    heads = 3
    key = random(len(slots) + 2, size, heads, dtype=dtype).transpose(1, 2)
    value = random(len(slots) + 2, heads, size, dtype=dtype, seed=1)
    cache = torch.full((2, 5, block, heads, size), math.nan, dtype=cache_dtype)
    if order is not None:
        cache = cache.permute(order).contiguous().permute([order.index(dim) for dim in range(5)])
    got = cache.clone().to(device)
    mapping = torch.tensor(slots, dtype=torch.int64)
    core_kernels.write_cache(key.to(device), value.to(device), got, mapping.to(device))
    expected = cache.clone()
    torch_kernels.write_cache(key, value, expected, mapping)
    by_hand = torch.full((2, 5, block, heads, size), math.nan, dtype=cache_dtype)
    for token, slot in enumerate(slots):
        if slot >= 0:
            by_hand[0, slot // block, slot % block] = key[token].to(cache_dtype)
            by_hand[1, slot // block, slot % block] = value[token].to(cache_dtype)
    assert torch.equal(expected.nan_to_num(9.0), by_hand.nan_to_num(9.0))
    assert torch.equal(got.isnan().cpu(), expected.isnan())
    close(got.nan_to_num(9.0), expected.nan_to_num(9.0))


for block in (1, 7, 16):
    case(f"write_cache block {block}", 80, block, [4, 0, -1, 3])(written)
case("write_cache one token", 1, 1, [2])(written)
case("write_cache only padding", 16, 7, [-1, -1])(written)
case("write_cache nothing", 16, 7, [])(written)
case("write_cache strides", 24, 7, [1, 33, 8], order=(2, 4, 3, 0, 1))(written)
case("write_cache many rows", 512, 2, [1, 3, -1])(written)
for dtype in (torch.float16, torch.bfloat16):
    case(f"write_cache {dtype}", 80, 7, [1, 9], dtype=dtype, cache_dtype=dtype)(written)
    case(f"write_cache converts to {dtype}", 80, 7, [1, 9], cache_dtype=dtype)(written)


def mapped(device: torch.device, block: int, requests: list[tuple[int, int]], pad: int) -> None:
    """`requests` holds `(computed tokens, new tokens)` of each."""
    starts, positions, expected = [0], list[int](), list[int]()
    width = max((-(-(past + new) // block) for past, new in requests), default=0) + 1
    table = torch.randperm(len(requests) * width, generator=torch.Generator().manual_seed(1))
    table = table.view(len(requests), width).int()
    for request, (past, new) in enumerate(requests):
        starts.append(starts[-1] + new)
        for position in range(past, past + new):
            positions.append(position)
            expected.append(int(table[request, position // block]) * block + position % block)
    expected += [-1] * pad
    for run, where in (
        (core_kernels.slot_mapping, device),
        (torch_kernels.slot_mapping, torch.device("cpu")),
    ):
        out = torch.full((len(expected),), 77, dtype=torch.int64, device=where)
        run(
            torch.tensor(starts, dtype=torch.int32, device=where),
            torch.tensor(positions, dtype=torch.int64, device=where),
            table.to(where),
            block,
            out,
        )
        assert out.tolist() == expected, (run.__module__, out.tolist(), expected)


for block in (1, 7, 16):
    case(f"slot_mapping block {block}", block, [(0, 5), (9, 1), (3, 0), (0, 30), (6, 9)], 3)(mapped)
case("slot_mapping many tokens", 16, [(0, 300), (5, 270)], 260)(mapped)
case("slot_mapping one token", 16, [(15, 1)], 0)(mapped)
case("slot_mapping no request", 16, [], 4)(mapped)
case("slot_mapping nothing", 16, [], 0)(mapped)


def normed(device: torch.device, shape: tuple[int, ...], dtype: torch.dtype, strided: bool = False) -> None:
    x, weight = random(*shape, dtype=dtype) * 3, random(shape[-1], dtype=dtype, seed=1)
    if strided:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    got = core_kernels.rms_norm(x.to(device), weight.to(device), 1e-5)
    wide = x.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    assert got.dtype is dtype
    assert got.shape == x.shape
    close(got, expected)
    close(torch_kernels.rms_norm(x, weight, 1e-5), expected)


for dtype in DTYPES:
    case(f"rms_norm {dtype}", (5, 80), dtype)(normed)
for shape in ((1, 1), (0, 16), (2, 3, 48), (3, 5000)):
    case(f"rms_norm {shape}", shape, torch.float32)(normed)
case("rms_norm strides", (6, 48), torch.float32, strided=True)(normed)


def gated(device: torch.device, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> None:
    x = random(*shape, dtype=dtype) * 4
    gate, other = x.double().chunk(2, dim=-1)
    expected = gate * gate.sigmoid() * other
    got = core_kernels.silu_and_mul(x.to(device))
    assert got.shape == expected.shape
    close(got, expected)
    close(torch_kernels.silu_and_mul(x), expected)


for dtype in DTYPES:
    case(f"silu_and_mul {dtype}", (5, 160), dtype)(gated)
for shape in ((1, 2), (0, 16), (2, 3, 6), (2, 3000)):
    case(f"silu_and_mul {shape}", shape)(gated)


def rotated(
    device: torch.device, size: int, half: int, tokens: int = 4, dtype: torch.dtype = torch.float32
) -> None:
    x = random(tokens, size, 3, dtype=dtype).transpose(1, 2)
    angles = random(tokens, half, seed=1) * 5
    expected = x.double().clone()
    for pair in range(half):
        turn = torch.complex(angles[:, pair].double().cos(), angles[:, pair].double().sin()).unsqueeze(1)
        turned = torch.complex(x[..., pair].double(), x[..., pair + half].double()) * turn
        expected[..., pair], expected[..., pair + half] = turned.real, turned.imag
    cos, sin = angles.cos(), angles.sin()
    close(core_kernels.rotary_embedding(x.to(device), cos.to(device), sin.to(device)), expected, sums=1e-6)
    close(torch_kernels.rotary_embedding(x, cos, sin), expected, sums=1e-6)


for dtype in DTYPES:
    case(f"rotary_embedding {dtype}", 80, 40, dtype=dtype)(rotated)
case("rotary_embedding partly", 80, 16)(rotated)
case("rotary_embedding not at all", 8, 0)(rotated)
case("rotary_embedding nothing", 16, 8, tokens=0)(rotated)
case("rotary_embedding wide", 600, 300, tokens=1)(rotated)


# --- adapters


class Adapters:
    """Three slots, of which one is empty, and a step of five tokens that mixes them."""

    tokens, slots, rank = 5, 3, 5

    def __init__(self, device: torch.device, kind: type[TorchPunicaWrapper], mapping: list[int]) -> None:
        self.device = device
        self.wrapper = kind(8, 4, device, max_loras=self.slots, can_update_inplace=True)
        self.wrapper.update_metadata(
            LoRAMapping(index_mapping=mapping, prompt_mapping=mapping[::-1]), [41, None, 43], self.slots, 32
        )

    def on_device(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.clone().to(self.device) for tensor in tensors)


SLOT = {41: 0, 43: 2}


def dense(
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a: list[torch.Tensor],
    lora_b: list[torch.Tensor],
    scale: float,
    mapping: list[int],
) -> torch.Tensor:
    """The same in float64, token by token."""
    expected = y.double().clone()
    for token, adapter in enumerate(mapping):
        if not adapter:
            continue
        first = 0
        for a, b in zip(lora_a, lora_b, strict=True):
            low = x[token].double() @ a[SLOT[adapter]].double().t()
            expected[token, first : first + b.shape[1]] += low @ b[SLOT[adapter]].double().t() * scale
            first += b.shape[1]
    return expected


MIXED = [41, 0, 43, 43, 41]


def linear(
    device: torch.device,
    kind: type[TorchPunicaWrapper] = TritonPunicaWrapper,
    *,
    outputs: tuple[int, ...] = (24, 7, 7),
    mapping: list[int] = MIXED,
    dtype: torch.dtype = torch.float32,
    inputs: int = 80,
    rank: int = 5,
    strided: bool = False,
) -> None:
    adapters, tokens = Adapters(device, kind, mapping), len(mapping)
    x, y = random(tokens, inputs, dtype=dtype), random(tokens, sum(outputs), dtype=dtype, seed=1)
    lora_a = [random(3, rank, inputs, dtype=dtype, seed=2 + i) / 8 for i in range(len(outputs))]
    lora_b = [random(3, each, rank, dtype=dtype, seed=9 + i) for i, each in enumerate(outputs)]
    expected = dense(y, x, lora_a, lora_b, 0.5, mapping)
    got, given = adapters.on_device(y, x)
    if strided:
        wide = torch.zeros(tokens, 2 * sum(outputs), dtype=dtype, device=device)
        wide[:, ::2] = got
        got, given = wide[:, ::2], given.t().contiguous().t()
    buffer = torch.full((len(outputs), tokens, rank), math.nan, device=device)
    result = adapters.wrapper.add_lora_linear(
        got, given, adapters.on_device(*lora_a), adapters.on_device(*lora_b), 0.5, outputs, buffer=buffer
    )
    assert result is got
    close(got, expected, sums=1e-5)
    kept = [token for token, adapter in enumerate(mapping) if not adapter]
    assert torch.equal(got[kept].cpu(), y[kept])


LORA_CASES: dict[str, dict[str, Any]] = {
    "mixed": {},
    "one slice": {"outputs": (33,)},
    "one adapter": {"mapping": [43] * 5},
    "no adapter": {"mapping": [0] * 5},
    "no token": {"mapping": []},
    "one token": {"mapping": [41]},
    "float16": {"dtype": torch.float16},
    "bfloat16": {"dtype": torch.bfloat16},
    "strides": {"strided": True},
    "rank 1": {"rank": 1},
    "rank 64": {"rank": 64, "inputs": 300, "outputs": (300,)},
}
for name, options in LORA_CASES.items():
    case(f"lora linear {name}", **options)(linear)


def shrunk_and_expanded(device: torch.device, kind: type[TorchPunicaWrapper] = TritonPunicaWrapper) -> None:
    adapters = Adapters(device, kind, MIXED)
    x, a, b = random(5, 12), random(3, 5, 12, seed=1), random(3, 6, 5, seed=2)
    low = torch.full((1, 5, 5), math.nan, device=device)
    assert adapters.wrapper.add_shrink(low, x.to(device), adapters.on_device(a), 2.0) is low
    expected = torch.zeros(1, 5, 5, dtype=torch.float64)
    for token, adapter in enumerate(MIXED):
        if adapter:
            expected[0, token] = x[token].double() @ a[SLOT[adapter]].double().t() * 2
    close(low, expected, sums=1e-5)
    y = random(5, 9, seed=3)
    for add in (True, False):
        got = y.clone().to(device)
        adapters.wrapper.add_expand(got, low, adapters.on_device(b), (6,), offset_start=2, add_inputs=add)
        wanted = y.double().clone()
        for token, adapter in enumerate(MIXED):
            if adapter:
                product = expected[0, token] @ b[SLOT[adapter]].double().t()
                wanted[token, 2:8] = product + (wanted[token, 2:8] if add else 0)
        close(got, wanted, sums=1e-5)


case("lora shrink and expand")(shrunk_and_expanded)


def embedded(device: torch.device, kind: type[TorchPunicaWrapper] = TritonPunicaWrapper) -> None:
    adapters = Adapters(device, kind, MIXED)
    y, low, b = random(5, 40), random(5, 5, seed=1), random(3, 40, 5, seed=2)
    expected = y.double().clone()
    for token, adapter in enumerate(MIXED):
        if adapter:
            expected[token] += low[token].double() @ b[SLOT[adapter]].double().t()
    got = y.clone().to(device)
    assert adapters.wrapper.add_lora_embedding(got, low.to(device), b.to(device)) is got
    close(got, expected, sums=1e-5)


case("lora embedding")(embedded)


def logits(device: torch.device, kind: type[TorchPunicaWrapper] = TritonPunicaWrapper) -> None:
    adapters = Adapters(device, kind, MIXED)
    y, x, a, b = random(5, 50), random(5, 12, seed=1), random(3, 5, 12, seed=2), random(3, 50, 5, seed=3)
    expected = dense(y, x, [a], [b], 0.25, MIXED[::-1])
    got = y.clone().to(device)
    buffer = torch.full((5, 5), math.nan, device=device)
    moved = adapters.on_device(x, a, b)
    assert adapters.wrapper.add_lora_logits(got, *moved, 0.25, buffer=buffer) is got
    close(got, expected, sums=1e-5)


case("lora logits")(logits)

LORA_BODIES: dict[str, Callable[..., None]] = {
    **{f"linear {name}": functools.partial(linear, **options) for name, options in LORA_CASES.items()},
    "shrink and expand": shrunk_and_expanded,
    "embedding": embedded,
    "logits": logits,
}
