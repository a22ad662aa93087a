"""Facts about low-rank adapters: what they add is what a merged weight would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from platform_abc.components.lora import LoRAMapping
from platform_abc.config import LoRAConfig
from platform_abc.errors import ConfigError
from reference_model.linear import Linear
from reference_model.lora import AdapterSlots
from tests.reference_engine import components, ranks
from tests.reference_engine.adapters import LAYER, pairs, save

Use = Callable[..., Any]
PROMPTS = [[1, 2, 3], [5, 6, 7, 8], [4], [1, 2, 3]]


def merge(model: Any, found: Mapping[str, tuple[torch.Tensor, torch.Tensor]], scale: float) -> None:
    """Add an adapter to the weights of a model that has none, as one dense product each."""
    for layer in (one for one in model.modules() if isinstance(one, Linear)):
        start = 0
        for part, outputs in zip(layer.parts, layer.outputs, strict=True):
            if part.name in found:
                lora_a, lora_b = found[part.name]
                layer.stored["weight"][start : start + outputs] += lora_b @ lora_a * scale
            start += outputs
    if "lm_head" in found:
        lora_a, lora_b = found["model.embed_tokens"]
        model.embedding.weight += (lora_b @ lora_a).T * scale
        lora_a, lora_b = found["lm_head"]
        model.head.weight += lora_b @ lora_a * scale


def test_each_request_of_a_batch_gets_what_merged_weights_give(use_platform: Use, tmp_path: Path) -> None:
    """Two adapters and the base model side by side, on every kind of projection, in two slots for three."""
    use_platform()
    folder = ranks.write_config(tmp_path / "model")
    args: dict[str, Any] = {"model": folder, "dtype": "float32"}
    found = [pairs(seed) for seed in (1, 2, 3)]
    expected = []
    for prompt, adapter in zip(PROMPTS, (None, found[0], found[1], found[1]), strict=True):
        worker = ranks.start(args)
        if adapter is not None:
            with torch.inference_mode():
                merge(worker.get_model(), adapter, scale=2.0)
        expected += ranks.generate(worker, [prompt], 8)
    assert len(set(expected)) == len(PROMPTS)
    modules = [str(save(tmp_path / str(n), one)) for n, one in enumerate(found)]
    worker = ranks.start({**args, "enable_lora": True, "max_loras": 2, "lora_modules": modules})
    # A third one has a slot first, which it must leave without a trace.
    ranks.generate(worker, PROMPTS[:2], 2, lora_ids=(3, 1))
    assert ranks.generate(worker, PROMPTS, 8, lora_ids=(0, 1, 2, 2)) == expected
    assert ranks.generate(worker, PROMPTS[:1], 8) == expected[:1]
    with pytest.raises(ValueError, match="3 adapters in one step, but lora_config.max_loras is 2"):
        ranks.generate(worker, PROMPTS, 1, lora_ids=(1, 2, 3, 0))


def test_two_ranks_divide_weights_and_adapters(use_platform: Use, tmp_path: Path) -> None:
    """The tokens are those of one rank: of two models, and whether or not all ranks get the logits.

    One with biases, a vocabulary of an odd number of tokens and adapters; and one with a state-space layer
    and a key head that both ranks keep.
    """
    use_platform()
    odd = ranks.write_config(tmp_path / "odd", vocab_size=97, attention_bias=True, mlp_bias=True)
    kinds = ["full_attention", "mamba", "full_attention"]
    state = ranks.write_config(tmp_path / "state", num_key_value_heads=1, layer_types=kinds)
    modules = [str(save(tmp_path / "adapter", pairs(1, vocabulary=97)))]
    args: dict[str, Any] = {"dtype": "float32", "num_gpu_blocks_override": 64}
    adapted = {**args, "model": odd, "enable_lora": True, "lora_modules": modules}
    jobs = [
        ranks.Job(prompts=PROMPTS, steps=6, args=adapted, lora_ids=(1, 0, 1, 0)),
        ranks.Job(prompts=PROMPTS, steps=12, args={**args, "model": state}, everywhere=False),
    ]
    alone = [
        ranks.generate(ranks.start(job.args), job.prompts, job.steps, lora_ids=job.lora_ids) for job in jobs
    ]
    assert alone[0][0] != alone[0][3]
    assert ranks.run(2, tmp_path, jobs) == [alone, alone]


@pytest.mark.parametrize(
    ("config", "change", "text"),
    [
        ({"use_dora": True}, {}, "use_dora = True: expected False"),
        ({"peft_type": "IA3"}, {}, "peft_type = 'IA3': expected 'LORA'"),
        ({"lora_alpha": "x"}, {}, "lora_alpha = 'x': expected a number"),
        ({"alpha_pattern": {"q": 1}}, {}, "alpha_pattern"),
        (
            {},
            {"model.layers.9.self_attn.q_proj": (48, 48)},
            "no projection 'model.layers.9.self_attn.q_proj'",
        ),
        ({}, {f"{LAYER}.self_attn.q_proj": (48, 47)}, "has the shapes"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused_in_one_line(
    use_platform: Use, tmp_path: Path, config: dict[str, Any], change: dict[str, Any], text: str
) -> None:
    """By file and key, or by projection."""
    use_platform()
    found = dict(pairs(1))
    for name, (outputs, inputs) in change.items():
        found[name] = (torch.zeros(3, inputs), torch.zeros(outputs, 3))
    module = save(tmp_path / "adapter", found, **config)
    args = {"model": ranks.write_config(tmp_path / "model"), "dtype": "float32", "enable_lora": True}
    with pytest.raises(ConfigError, match=text) as caught:
        ranks.start({**args, "lora_modules": [str(module)]})
    assert "\n" not in str(caught.value)


def test_an_adapter_of_a_larger_rank_than_the_slots_is_refused(use_platform: Use, tmp_path: Path) -> None:
    """With both numbers; and one for what the user has not listed has no place."""
    use_platform()
    args = {"model": ranks.write_config(tmp_path / "model"), "dtype": "float32", "enable_lora": True}
    large = str(save(tmp_path / "large", pairs(1, rank=9)))
    with pytest.raises(ConfigError, match="rank 9 is larger than lora_config.max_lora_rank 8"):
        ranks.start({**args, "lora_modules": [large]})
    assert ranks.start({**args, "max_lora_rank": 16, "lora_modules": [large]})


def test_state_space_layers_take_adapters_too(use_platform: Use, tmp_path: Path) -> None:
    """On their projections, as merged weights would have it."""
    use_platform()
    kinds = ["full_attention", "mamba", "full_attention"]
    args = {"model": ranks.write_config(tmp_path / "model", layer_types=kinds), "dtype": "float32"}
    make = torch.Generator().manual_seed(1)
    found = {
        f"{LAYER}.mamba.{name}": (
            torch.randn(3, inputs, generator=make) * 0.3,
            torch.randn(outputs, 3, generator=make) * 0.3,
        )
        for name, outputs, inputs in (("gate_proj", 96, 48), ("input_proj", 16, 48), ("out_proj", 48, 96))
    }
    plain = ranks.start(args)
    before = ranks.generate(plain, PROMPTS[:2], 8)
    with torch.inference_mode():
        merge(plain.get_model(), found, scale=2.0)
    merged = ranks.generate(plain, PROMPTS[:2], 8)
    module = str(save(tmp_path / "adapter", found))
    worker = ranks.start({**args, "enable_lora": True, "lora_modules": [module]})
    assert ranks.generate(worker, PROMPTS[:2], 8, lora_ids=(1, 0)) == [merged[0], before[1]]
    assert merged[0] != before[0]


def test_an_adapter_in_a_slot_changes_its_tokens_only(use_platform: Use) -> None:
    """Slots add what their adapter makes of the input; an empty slot adds nothing."""
    use_platform()
    wrapper = components.TorchPunica(8, 8, "cpu", max_loras=2)
    slots = AdapterSlots(wrapper, LoRAConfig(max_loras=2, max_lora_rank=4), 3, (5,))
    lora_a, lora_b = torch.randn(2, 3), torch.randn(5, 2)
    slots.set_adapter(1, lora_a, lora_b)
    wrapper.update_metadata(LoRAMapping(index_mapping=[0, 7, 6], prompt_mapping=[]), [6, 7], 2, 10)
    x, y = torch.randn(3, 3), torch.zeros(3, 5)
    out = slots(y.clone(), x)
    assert torch.allclose(out[1], x[1] @ lora_a.T @ lora_b.T)
    assert out[0].abs().sum() == out[2].abs().sum() == 0
    use_platform(can_update_inplace=lambda _cls: False)
    assert torch.equal(slots(y.clone(), x), out)
    wrapper.add_lora_linear = lambda *_a, **_k: None  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="returned None on a platform that cannot update"):
        slots(y, x)
    slots.clear(1)
    assert slots(y, x) is y
