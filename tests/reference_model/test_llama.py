"""Facts about the Llama family: its tokens are those of transformers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from platform_abc.components.kernels import KERNELS
from platform_abc.config import CacheConfig, EngineConfig, ModelConfig
from platform_abc.errors import ConfigError
from platform_abc.requests import SamplingParams
from platforms.components import torch_kernels
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from reference_model.llama import build_model
from tests.reference_engine import llama_folder

Use = Callable[..., Any]
CPU = torch.device("cpu")


def config_of(**model: Any) -> EngineConfig:
    return EngineConfig(model_config=ModelConfig(**{"dtype": torch.float32, **model}))


def test_layers_enter_the_context_and_say_what_they_store(use_platform: Use) -> None:
    """Building again replaces them, so one config serves two models in turn."""
    use_platform()
    config = config_of(num_layers=3, num_attention_heads=4, num_kv_heads=2, hidden_size=64)
    for _ in range(2):
        model = build_model(config, CPU)
        assert list(config.compilation_config.static_forward_context) == list(model.layers())
    assert list(model.layers()) == [f"layers.{index}.attention" for index in range(3)]
    spec: Any = model.layers()["layers.1.attention"].get_kv_cache_spec(config)
    assert (spec.block_size, spec.num_kv_heads, spec.head_size, spec.dtype) == (16, 2, 16, torch.float32)
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize("skipped", ["layers.0.attention", "0"])
def test_a_skipped_layer_stores_the_models_dtype(use_platform: Use, skipped: str) -> None:
    """By name or by number; and it is padded to the page that alignment has found."""
    use_platform()
    config = config_of()
    config.cache_config = CacheConfig(
        cache_dtype="bfloat16",
        kv_cache_dtype_skip_layers=[skipped],
        skip_page_size_padded=1 << 16,
    )
    model = build_model(config, CPU)
    specs: list[Any] = [layer.get_kv_cache_spec(config) for layer in model.layers().values()]
    assert [spec.cache_dtype for spec in specs] == ["auto", "bfloat16"]
    assert [spec.page_size_padded for spec in specs] == [1 << 16, None]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (EngineConfig(), "model_config = None"),
        (config_of(dtype="auto"), "expected a torch.dtype"),
        (config_of(use_mla=True), "model_config.use_mla = True"),
        (
            config_of(num_attention_heads=3, num_kv_heads=2, hidden_size=48),
            "num_kv_heads = 2: expected a divisor",
        ),
        (config_of(head_size=5), "head_size = 5"),
    ],
)
def test_what_is_no_llama_is_refused(use_platform: Use, config: EngineConfig, text: str) -> None:
    """By field."""
    use_platform()
    with pytest.raises(ConfigError, match=text):
        build_model(config, CPU)


def test_the_platform_may_refuse_the_architecture(use_platform: Use) -> None:
    """Before anything is built."""

    def refuses(_cls: type, model_arch: str) -> None:
        raise ValueError(f"no {model_arch} here")

    use_platform(verify_model_arch=refuses)
    config = config_of()
    with pytest.raises(ValueError, match="no LlamaForCausalLM here"):
        build_model(config, CPU)
    assert config.compilation_config.static_forward_context == {}


PROMPTS = [[1, 2, 3], [5, 6, 7, 8, 9, 10], [4], list(range(40)), [90, 3], [7] * 11, [8, 1, 2, 9], [33]]


def generate(folder: Path | str, prompts: list[list[int]] = PROMPTS, most: int = 64, **args: Any) -> Any:
    with Engine(EngineArgs(model=str(folder), num_gpu_blocks_override=4096, **args)) as engine:
        results = engine.generate(prompts, SamplingParams(max_tokens=most, ignore_eos=True))
    assert [result.error for result in results] == [""] * len(prompts)
    return [tuple(result.tokens) for result in results]


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def test_tokens_are_those_of_transformers(use_platform: Use, tmp_path: Path) -> None:
    """64 greedy tokens of ragged prompts; the closest choice on the way is far above what summation changes."""
    pytest.importorskip("transformers")
    use_platform()
    model = llama_folder.make_folder(tmp_path)
    expected = llama_folder.record(model, PROMPTS, 64)
    llama_folder.write_gap(tmp_path, expected)
    assert expected.least_gap > 20 * expected.error
    assert len(set(expected.tokens)) == len(PROMPTS)
    assert generate(tmp_path) == expected.tokens
    assert generate(tmp_path, max_num_seqs=1, block_size=3) == expected.tokens


@pytest.mark.parametrize(
    "fields",
    [
        {"attention_bias": True, "mlp_bias": True, "head_dim": 16, "shards": True},
        {"tie_word_embeddings": True, "num_key_value_heads": 6, "rms_norm_eps": 0.1},
        {"rope_parameters": LLAMA3, "num_key_value_heads": 1},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}},
        {"kind": "Mistral", "sliding_window": 5, "head_dim": 8},
    ],
    ids=["biases-shards", "tied", "llama3", "linear", "window"],
)
def test_every_kind_of_folder_computes_what_transformers_does(
    use_platform: Use, tmp_path: Path, fields: dict[str, Any]
) -> None:
    """Biases, head sizes, tied weights, scaled rotary embedding, windows, several weight files."""
    pytest.importorskip("transformers")
    use_platform()
    prompts = [[1, 2, 3], list(range(40)), [7] * 11]
    expected = llama_folder.record(llama_folder.make_folder(tmp_path, **fields), prompts, 24)
    assert expected.least_gap > 20 * expected.error
    assert generate(tmp_path, prompts, 24) == expected.tokens


def test_bfloat16_and_any_block_size_choose_the_same_where_choices_are_clear(
    use_platform: Use, tmp_path: Path
) -> None:
    """Prompts on whose way no choice is close: float32's tokens, in either dtype and blocks of any size."""
    pytest.importorskip("transformers")
    use_platform()
    model = llama_folder.make_folder(tmp_path, kind="Mistral", sliding_window=20)
    candidates = [
        [number] * (1 + number % 7) + [number + 1] * (number % 30) for number in (8, 24, 44, 68, 92)
    ]
    found = [llama_folder.record(model, [prompt], 10) for prompt in candidates]
    clear = [(prompt, one) for prompt, one in zip(candidates, found, strict=True) if one.least_gap > 0.15]
    assert len(clear) >= 4
    prompts, expected = [prompt for prompt, _ in clear], [one.tokens[0] for _, one in clear]
    for size in (1, 16, 48):
        for dtype in ("float32", "bfloat16"):
            assert generate(tmp_path, prompts, 10, dtype=dtype, block_size=size) == expected


def test_dummy_weights_do_not_depend_on_the_process(use_platform: Use) -> None:
    """The seed and the name of a weight decide; another seed is another model."""
    use_platform()
    first = generate("toy", PROMPTS[:2], 8, dtype="float32")
    assert generate("toy", PROMPTS[:2], 8, dtype="float32") == first
    assert generate("toy", PROMPTS[:2], 8, dtype="float32", seed=1) != first


def test_only_the_wanted_rows_go_through_the_head(use_platform: Use) -> None:
    """A prompt of many tokens gives one row of logits."""
    use_platform()
    rows: list[int] = []
    with Engine(EngineArgs(dtype="float32")) as engine:
        core: Any = engine
        model = core._core._core.executor.worker.get_model()
        model.head.register_forward_pre_hook(lambda _module, given: rows.append(given[0].shape[0]))
        engine.generate([[1, 2, 3, 4], [5, 6]], SamplingParams(max_tokens=2))
    assert rows == [2, 2]


def test_layers_call_the_core_kernels_that_the_platform_registered(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each layer once a step; where nothing is registered, plain torch gives the same tokens."""
    monkeypatch.setattr(KERNELS, "_overrides", {})
    use_platform(register_triton_kernel_overrides=lambda _cls: None)
    plain = generate("toy", PROMPTS[:2], 4, dtype="float32")
    called: list[str] = []

    def counted(name: str) -> Callable[..., torch.Tensor]:
        def call(*args: torch.Tensor) -> torch.Tensor:
            called.append(name)
            return torch_kernels.FUNCTIONS[name](*args)

        return call

    def register(_cls: type) -> None:
        for name in ("silu_and_mul", "rotary_embedding"):
            KERNELS.override(name, counted(name))

    use_platform(register_triton_kernel_overrides=register)
    assert generate("toy", PROMPTS[:2], 4, dtype="float32") == plain
    assert called[:4] == ["rotary_embedding", "silu_and_mul"] * 2
    assert len(called) >= 4 * 2 * 2


@pytest.mark.deep
def test_triton_kernels_generate_the_same_tokens() -> None:
    """Norms aside, what lies between the matrices: in Triton's interpreter, in a process of its own."""
    pytest.importorskip("triton")
    argv = "generate --dtype float32 --max-tokens 8 --prompt-ids 1,2,3 --prompt-ids 5"
    found = [
        subprocess.run(
            [sys.executable, "-m", "reference_engine", *argv.split()],
            env={**os.environ, "PLATFORM_ABC_TARGET_DEVICE": "cpu", "TRITON_INTERPRET": interpreted},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for interpreted in ("0", "1")
    ]
    assert found[0] == found[1]
    assert len(found[0].splitlines()) == 2
