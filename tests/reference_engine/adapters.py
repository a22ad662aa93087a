"""Low-rank adapters of the model of `llama_folder.PLAIN`, and folders of them as PEFT writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

LAYER = "model.layers.1"
PROJECTIONS = {
    f"{LAYER}.self_attn.q_proj": (48, 48),
    f"{LAYER}.self_attn.v_proj": (16, 48),
    f"{LAYER}.self_attn.o_proj": (48, 48),
    f"{LAYER}.mlp.gate_proj": (112, 48),
    f"{LAYER}.mlp.down_proj": (48, 112),
    "model.embed_tokens": (48, 96),
    "lm_head": (96, 48),
}
"""Outputs and inputs of what the adapters change, in the model of `llama_folder.PLAIN`."""


def pairs(seed: int, rank: int = 3, vocabulary: int = 96) -> Mapping[str, tuple[torch.Tensor, torch.Tensor]]:
    make = torch.Generator().manual_seed(seed)
    return {
        name: (
            torch.randn(rank, vocabulary if name == "model.embed_tokens" else inputs, generator=make) * 0.5,
            torch.randn(vocabulary if name == "lm_head" else outputs, rank, generator=make) * 0.3,
        )
        for name, (outputs, inputs) in PROJECTIONS.items()
    }


def save(folder: Path, found: Mapping[str, tuple[torch.Tensor, torch.Tensor]], **config: Any) -> Path:
    """Write an adapter as PEFT does."""
    from safetensors.torch import save_file

    folder.mkdir()
    raw = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(raw), encoding="utf-8")
    tensors = {}
    for name, (lora_a, lora_b) in found.items():
        embedding = name.endswith("embed_tokens")
        ends = (
            (".lora_embedding_A", ".lora_embedding_B") if embedding else (".lora_A.weight", ".lora_B.weight")
        )
        for end, tensor in zip(ends, (lora_a, lora_b), strict=True):
            tensors[f"base_model.model.{name}{end}"] = tensor.clone()
    save_file(tensors, str(folder / "adapter_model.safetensors"))
    return folder
