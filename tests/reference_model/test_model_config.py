"""Facts about what a model is like: the folder's words, the toy's, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from platform_abc.config import ModelConfig
from platform_abc.errors import ConfigError
from reference_engine.args import EngineArgs
from reference_engine.engine_config import create_engine_config
from reference_engine.model_args import describe_model
from reference_model.model_config import shape_of
from tests.reference_engine import llama_folder

Use = Callable[..., Any]
PLAIN = {"architectures": ["LlamaForCausalLM"], **llama_folder.PLAIN}


def write(folder: Path, raw: object) -> str:
    (folder / "config.json").write_text(raw if isinstance(raw, str) else json.dumps(raw), encoding="utf-8")
    return str(folder)


def test_a_folder_says_everything(tmp_path: Path, use_platform: Use) -> None:
    """Sizes, windows, rotary parameters of either generation, dtype and length."""
    use_platform()
    raw = {
        **PLAIN,
        "head_dim": 16,
        "torch_dtype": "float16",
        "sliding_window": 7,
        "layer_types": ["full_attention", "sliding_attention", "mamba"],
        "rope_theta": 5.0,
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "rms_norm_eps": 0.5,
        "tie_word_embeddings": True,
    }
    config = create_engine_config(EngineArgs(model=write(tmp_path, raw)))
    model = config.model_config
    assert model is not None
    assert (model.dtype, model.max_model_len, model.get_head_size()) == (torch.float16, 256, 16)
    assert (model.is_hybrid, model.get_total_num_kv_heads()) == (True, 2)
    shape = shape_of(model, 2)
    assert shape.windows == [None, 7, 7]
    assert model.layer_kinds == ["attention", "attention", "mamba"]
    assert shape.rope["rope_type"] == "linear"
    assert (shape.rope["rope_theta"], shape.rope["factor"]) == (5.0, 2.0)
    assert (shape.epsilon, shape.tied, shape.intermediate_size) == (0.5, True, 112)
    model.disable_sliding_window = True
    assert shape_of(model, 1).windows == [None] * 3


def test_a_dtype_that_the_platform_does_not_compute_in_is_not_taken(
    tmp_path: Path, use_platform: Use
) -> None:
    """The platform's own first dtype is, unless the user asks."""
    use_platform(_dtype_names=lambda _cls: ("float32",))
    model = write(tmp_path, {**PLAIN, "dtype": "bfloat16"})
    config = create_engine_config(EngineArgs(model=model))
    assert config.model_config is not None
    assert config.model_config.dtype is torch.float32


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            {**PLAIN, "architectures": ["GPT2LMHeadModel"]},
            r"architectures = \['GPT2LMHeadModel'\]: expected one of",
        ),
        ({**PLAIN, "architectures": None}, "architectures = None"),
        ({**PLAIN, "hidden_size": "48"}, "hidden_size = '48': expected a whole number"),
        ({**PLAIN, "vocab_size": 0}, "vocab_size = 0"),
        ({**PLAIN, "num_hidden_layers": True}, "num_hidden_layers = True"),
        ({**PLAIN, "hidden_act": "gelu"}, "hidden_act = 'gelu': expected 'silu'"),
        ({**PLAIN, "quantization_config": {"quant_method": "gptq"}}, "expected plain weights"),
        ({**PLAIN, "layer_types": ["mamba"]}, "for each of the 3 layers"),
        ({**PLAIN, "layer_types": [["mamba"], {}, 1]}, "for each of the 3 layers"),
        ({**PLAIN, "hidden_size": 10**30}, r"hidden_size = 10+: expected a whole number of .* below 2\*\*31"),
        (
            {**PLAIN, "architectures": ["MistralForCausalLM"], "sliding_window": 2**31},
            "sliding_window = 2147",
        ),
        ({**PLAIN, "max_position_embeddings": 8}, "max_model_len = 9: .* max_position_embeddings = 8"),
        ([], "expected a JSON object, got list"),
        ("{", "expected a JSON object"),
    ],
)
def test_a_folder_of_another_kind_is_refused_in_one_line(tmp_path: Path, raw: object, text: str) -> None:
    """With the file and the key."""
    with pytest.raises(ConfigError, match=text) as caught:
        describe_model(EngineArgs(model=write(tmp_path, raw), max_model_len=9))
    assert "\n" not in str(caught.value)
    assert "config.json" in str(caught.value)


def test_a_name_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    """And so is a folder without a description."""
    with pytest.raises(ConfigError, match="expected 'toy' or the folder of a model"):
        describe_model(EngineArgs(model="meta-llama/none"))
    with pytest.raises(ConfigError, match="config.json: cannot be read: No such file"):
        describe_model(EngineArgs(model=str(tmp_path)))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("rms_norm_eps", "small", "rms_norm_eps = 'small': expected a number of at least 0 and less than 1"),
        ("rope_scaling", [2.0], r"rope_scaling = \[2.0\]: expected an object of parameters"),
        ("tie_word_embeddings", "false", "tie_word_embeddings = 'false': expected True or False"),
        ("intermediate_size", 0, "intermediate_size = 0"),
        ("intermediate_size", 2**40, "intermediate_size = 1099511627776: expected .* below"),
        (
            "rope_parameters",
            {"full_attention": {"rope_type": "default", "rope_theta": 5.0}},
            "rope_parameters = .*: expected the same parameters for all layers",
        ),
    ],
)
def test_a_word_that_makes_no_sense_is_refused_before_a_weight_is_read(
    tmp_path: Path, use_platform: Use, key: str, value: object, text: str
) -> None:
    """By its key."""
    use_platform()
    model = create_engine_config(EngineArgs(model=write(tmp_path, {**PLAIN, key: value}))).model_config
    assert model is not None
    with pytest.raises(ConfigError, match=text):
        shape_of(model, 1)


def test_a_share_of_each_head_to_turn_is_read_beside_the_other_parameters_too(
    tmp_path: Path, use_platform: Use
) -> None:
    """Where folders of another generation keep it; the rotary embedding refuses it."""
    use_platform()
    args = EngineArgs(model=write(tmp_path, {**PLAIN, "partial_rotary_factor": 0.5}))
    model = create_engine_config(args).model_config
    assert model is not None
    assert shape_of(model, 1).rope["partial_rotary_factor"] == 0.5


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, None),
        ({"architectures": ["LlamaForCausalLM"], "layer_types": ["sliding_attention"] * 3}, 7),
        ({"architectures": ["MistralForCausalLM"]}, 7),
    ],
)
def test_a_llama_has_no_window_that_no_layer_asks_for(
    tmp_path: Path, fields: dict[str, Any], window: int | None
) -> None:
    """A Mistral has."""
    found = describe_model(EngineArgs(model=write(tmp_path, {**PLAIN, "sliding_window": 7, **fields})))
    assert found.fields["sliding_window"] == window


@pytest.mark.parametrize(
    ("fields", "ranks", "text"),
    [
        ({"num_attention_heads": 2}, 4, "num_attention_heads = 2: cannot be divided among 4"),
        ({"num_attention_heads": 12, "num_kv_heads": 3, "hidden_size": 96}, 2, "num_kv_heads = 3"),
        ({"hidden_size": 66, "num_attention_heads": 4, "head_size": 16}, 8, "num_attention_heads = 4"),
    ],
)
def test_what_cannot_be_divided_is_refused(fields: dict[str, Any], ranks: int, text: str) -> None:
    """By field, before a weight is read."""
    with pytest.raises(ConfigError, match=text):
        shape_of(ModelConfig(dtype=torch.float32, **fields), ranks)


@pytest.mark.parametrize(
    ("in_config", "in_generation", "expected"),
    [
        (7, None, [7]),
        (None, None, []),
        (7, {"eos_token_id": [9, 14]}, [9, 14]),
        ([3, 4], {"eos_token_id": None}, [3, 4]),
        (None, {"eos_token_id": 0}, [0]),
    ],
)
def test_the_generation_config_has_the_say_about_the_end(
    tmp_path: Path, in_config: object, in_generation: dict[str, object] | None, expected: list[int]
) -> None:
    """As in the library that writes such folders; instructed models keep their list there."""
    write(tmp_path, {**PLAIN, "eos_token_id": in_config})
    if in_generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(in_generation))
    described = describe_model(EngineArgs(model=str(tmp_path)))
    assert described.fields["hf_config"].eos_token_id == expected


@pytest.mark.parametrize("text", ['{"eos_token_id": "x"}', '{"eos_token_id": [1, -2]}', "{"])
def test_an_end_that_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    """The line names the file."""
    write(tmp_path, {**PLAIN, "eos_token_id": 1})
    (tmp_path / "generation_config.json").write_text(text)
    with pytest.raises(ConfigError, match="generation_config.json: "):
        describe_model(EngineArgs(model=str(tmp_path)))
