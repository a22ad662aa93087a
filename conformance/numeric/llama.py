"""A small Llama: its folder, with seeded weights, and what it generates, computed plainly and without a cache."""

from __future__ import annotations

import ctypes
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    import torch

_CONFIG: Final = Path(__file__).parents[1] / "data" / "tiny-llama" / "config.json"


def config(head_size: int | None = None) -> dict[str, Any]:
    """The `config.json` of the model.

    Args:
        head_size: elements of a head; None for the usual one.
    """
    found: dict[str, Any] = json.loads(_CONFIG.read_text(encoding="utf-8"))
    return found if head_size is None else {**found, "head_dim": head_size}


def weights(head_size: int | None = None) -> dict[str, torch.Tensor]:
    """Its weights by their names in a folder, float32, each seeded by its name."""
    facts = config(head_size)
    width, inner, size = facts["hidden_size"], facts["intermediate_size"], facts["head_dim"]
    heads, kv_heads = facts["num_attention_heads"], facts["num_key_value_heads"]
    made = {"model.embed_tokens.weight": _drawn("embed", facts["vocab_size"], width, spread=0.3)}
    for layer in range(facts["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        shapes = {
            "self_attn.q_proj": (heads * size, width),
            "self_attn.k_proj": (kv_heads * size, width),
            "self_attn.v_proj": (kv_heads * size, width),
            "self_attn.o_proj": (width, heads * size),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }
        for name, shape in shapes.items():
            # Large enough that each layer counts for the answer.
            made[f"{at}.{name}.weight"] = _drawn(f"{at}.{name}", *shape, spread=3.0 * shape[1] ** -0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            made[f"{at}.{name}.weight"] = 1 + _drawn(f"{at}.{name}", width, spread=0.1)
    made["model.norm.weight"] = 1 + _drawn("norm", width, spread=0.1)
    made["lm_head.weight"] = _drawn("lm_head", facts["vocab_size"], width, spread=1.0)
    return made


def _drawn(name: str, *shape: int, spread: float) -> torch.Tensor:
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode()))) * spread


def write_folder(folder: Path, head_size: int | None = None) -> None:
    """Write the model as a folder of the usual layout, its weights in one file of safetensors."""
    (folder / "config.json").write_text(json.dumps(config(head_size)), encoding="utf-8")
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, tensor in weights(head_size).items():
        whole = tensor.contiguous()
        # Its own way to bytes needs numpy, which torch does without.
        data = ctypes.string_at(whole.data_ptr(), whole.numel() * whole.element_size())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


@attrs.frozen
class Wrong:
    """The first token of a text that is none of the likely ones.

    Args:
        place: how many tokens had been generated before.
        got: the token.
        best: the likeliest.
        gap: by how much the likeliest one's logit is larger.
    """

    place: int
    got: int
    best: int
    gap: float


def first_wrong(
    prompt: Sequence[int], tokens: Sequence[int], near: float, head_size: int | None = None
) -> Wrong | None:
    """Follow what was generated, and find the first token whose logit is further from the largest one than `near`."""
    logits = _logits([*prompt, *tokens], weights(head_size), config(head_size))
    for place, got in enumerate(tokens):
        row = logits[len(prompt) + place - 1]
        best = int(row.argmax())
        gap = float(row[best] - row[got])
        if gap > near:
            return Wrong(place, got, best, gap)
    return None


def _logits(tokens: Sequence[int], of: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> torch.Tensor:
    """The logits after each token, float64 `[T, vocabulary]`."""
    import torch

    size, group = facts["head_dim"], facts["num_attention_heads"] // facts["num_key_value_heads"]
    count = len(tokens)
    x = of["model.embed_tokens.weight"].double()[list(tokens)]
    rates = facts["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(count, dtype=torch.float64).unsqueeze(1) * rates
    cos, sin = (
        torch.cat([angles, angles], 1).cos().unsqueeze(1),
        torch.cat([angles, angles], 1).sin().unsqueeze(1),
    )
    seen = torch.ones(count, count).tril().bool()

    def linear(name: str, given: torch.Tensor) -> torch.Tensor:
        return given @ of[f"{name}.weight"].double().T

    def norm(name: str, given: torch.Tensor) -> torch.Tensor:
        root = torch.rsqrt(given.square().mean(-1, keepdim=True) + facts["rms_norm_eps"])
        return given * root * of[f"{name}.weight"].double()

    def turned(heads: torch.Tensor) -> torch.Tensor:
        first, second = heads.chunk(2, -1)
        return heads * cos + torch.cat([-second, first], -1) * sin

    for layer in range(facts["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        given = norm(f"{at}.input_layernorm", x)
        query, key, value = (
            linear(f"{at}.self_attn.{one}_proj", given).view(count, -1, size) for one in ("q", "k", "v")
        )
        query, key = turned(query), turned(key)
        key, value = (one.repeat_interleave(group, dim=1) for one in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query, key) * size**-0.5
        weight = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        x = x + linear(f"{at}.self_attn.o_proj", torch.einsum("hqk,khd->qhd", weight, value).flatten(1))
        given = norm(f"{at}.post_attention_layernorm", x)
        gate = torch.nn.functional.silu(linear(f"{at}.mlp.gate_proj", given))
        x = x + linear(f"{at}.mlp.down_proj", gate * linear(f"{at}.mlp.up_proj", given))
    return linear("lm_head", norm("model.norm", x))
