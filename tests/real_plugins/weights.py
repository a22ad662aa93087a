"""A tiny Llama with random weights, for platforms whose own loader takes no dummy ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_WIDTH: Final = 256
_INNER: Final = 512
_LAYERS: Final = 2
_VOCABULARY: Final = 256
_CONFIG: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": _WIDTH,
    "intermediate_size": _INNER,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def write(folder: Path) -> None:
    """Write the model's description and its weights, the same ones each time."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.05

    tensors = {
        "model.embed_tokens.weight": random(_VOCABULARY, _WIDTH),
        "lm_head.weight": random(_VOCABULARY, _WIDTH),
        "model.norm.weight": torch.ones(_WIDTH),
    }
    for layer in range(_LAYERS):
        prefix = f"model.layers.{layer}."
        for name in ("q", "k", "v", "o"):
            tensors[f"{prefix}self_attn.{name}_proj.weight"] = random(_WIDTH, _WIDTH)
        tensors[f"{prefix}mlp.gate_proj.weight"] = random(_INNER, _WIDTH)
        tensors[f"{prefix}mlp.up_proj.weight"] = random(_INNER, _WIDTH)
        tensors[f"{prefix}mlp.down_proj.weight"] = random(_WIDTH, _INNER)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = torch.ones(_WIDTH)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    import sys

    write(Path(sys.argv[1]))
