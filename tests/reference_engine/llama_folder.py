"""Model folders made by transformers, and what transformers generates from them: the reference of this engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import torch

PLAIN: Mapping[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
"""A Llama that is small, and whose logits are far enough apart."""


@attrs.frozen(kw_only=True)
class Recorded:
    """What transformers generates greedily from a folder.

    Args:
        tokens: of each prompt, the new ones.
        least_gap: the smallest difference between the best and the second logit on the way.
        error: the largest difference between a best or second logit in float32 and in float64 on the way:
            how much summation alone may change.
    """

    tokens: Sequence[tuple[int, ...]]
    least_gap: float
    error: float


def make_folder(
    folder: Path, *, seed: int = 0, kind: str = "Llama", shards: bool = False, **fields: Any
) -> Any:
    """Write a folder with seeded weights, biases and norms among them, and return transformers' model.

    Args:
        folder: where; made here.
        seed: of the weights.
        kind: `Llama` or `Mistral`.
        shards: several weight files with an index.
        **fields: of the configuration, over `PLAIN`.
    """
    import transformers

    config = getattr(transformers, f"{kind}Config")(**{**PLAIN, **fields})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                weight.add_(0.2 * torch.randn_like(weight))
    size: Any = "20KB" if shards else "5GB"
    model.save_pretrained(folder, max_shard_size=size)
    return model


def record(model: Any, prompts: Sequence[Sequence[int]], steps: int) -> Recorded:
    """Generate greedily, each prompt alone, with transformers' own cache.

    Args:
        model: transformers' model, float32.
        prompts: tokens of each.
        steps: new tokens of each.
    """
    import copy

    exact = copy.deepcopy(model).double()
    tokens: list[tuple[int, ...]] = []
    gap, error = float("inf"), 0.0
    for prompt in prompts:
        given = torch.tensor([list(prompt)])
        with torch.no_grad():
            # Without an end the model goes on to the last step.
            whole = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=steps,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
            rows = slice(len(prompt) - 1, len(prompt) + steps - 1)
            logits = model(whole).logits[0, rows].double()
            true = exact(whole).logits[0, rows]
        best = logits.topk(2)
        gap = min(gap, float((best.values[:, 0] - best.values[:, 1]).min()))
        error = max(error, float((best.values - true.gather(1, best.indices)).abs().max()))
        tokens.append(tuple(whole[0, len(prompt) :].tolist()))
    return Recorded(tokens=tokens, least_gap=gap, error=error)


def write_gap(folder: Path, recorded: Recorded) -> None:
    """Note beside the weights how close the closest choice was, and by how much summation may change it."""
    noted = {"least_gap": recorded.least_gap, "error": recorded.error, "tokens": list(recorded.tokens)}
    (folder / "recorded.json").write_text(json.dumps(noted), encoding="utf-8")
