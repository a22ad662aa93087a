"""What a model is like, as a Hugging Face folder describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import attrs

from platform_abc._config_checks import BOOL, NOT_NEGATIVE, POSITIVE, Check, between
from platform_abc.config import ModelConfig
from platform_abc.config_values import MODEL_DTYPES
from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    from platform_abc.config_model import LayerKind

ARCHITECTURES: Final = ("LlamaForCausalLM", "MistralForCausalLM")
"""The model classes whose folders this engine reads; their weights have the same names and uses."""

TOY: Final = "toy"
"""Stands for no folder: a small model with seeded weights."""

FOLDER_LENGTH: Final = 2048
"""Longest sequence in tokens where the user says nothing, of a folder that allows more."""

_SIZE: Final[Check[int]] = Check(
    lambda value: POSITIVE.accepts(value) and value < 1 << 31, "a whole number of at least 1 and below 2**31"
)
"""Of a dimension, or a number of tokens: what is beyond is no model, but an error deep in torch."""

_KINDS: Final[Mapping[str, LayerKind]] = {
    "attention": "attention",
    "full_attention": "attention",
    "sliding_attention": "attention",
    "mamba": "mamba",
}


T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Description:
    """A model as its folder, or the arguments, describe it.

    Args:
        fields: of `ModelConfig`, without those that the platform decides.
        dtype: name of the dtype of the stored weights; None where nothing is said.
        max_model_len: longest sequence in tokens.
    """

    fields: Mapping[str, Any]
    dtype: str | None
    max_model_len: int


def describe_folder(model: str, max_model_len: int | None) -> Description:
    """Describe the model in a folder.

    Args:
        model: a Hugging Face folder with a `config.json`.
        max_model_len: longest sequence in tokens; None takes what the folder allows, 2048 at most.

    Raises:
        ConfigError: there is no such folder, or its `config.json` is none of a model that this engine knows.
    """
    path = folder_of(model) / "config.json"
    raw, where = read_json(path), str(path)
    raw["eos_token_id"] = _end_tokens(path.parent, raw, where)
    trained = read_value(raw, "max_position_embeddings", POSITIVE, where, FOLDER_LENGTH)
    if isinstance(max_model_len, int) and max_model_len > trained:
        raise ConfigError(
            f"model_config.max_model_len = {max_model_len}: {path} says max_position_embeddings = "
            f"{trained}; expected at most that"
        )
    longest = min(FOLDER_LENGTH, trained) if max_model_len is None else max_model_len
    return describe(model, raw, where, longest)


def describe(model: str, raw: Mapping[str, Any], where: str, max_model_len: int) -> Description:
    """Describe a model from what a `config.json` says of it.

    Args:
        model: its folder or name.
        raw: what is said.
        where: who says it, for messages.
        max_model_len: longest sequence in tokens.

    Raises:
        ConfigError: it is none that this engine knows.
    """
    architecture = _architecture(raw, where)
    _refuse_unknown(raw, where)

    def number(key: str, default: int | None = None) -> int:
        return read_value(raw, key, _SIZE, where, default)

    hidden, heads, layers = number("hidden_size"), number("num_attention_heads"), number("num_hidden_layers")
    kinds = _layer_types(raw, layers, where)
    windowed = raw.get("use_sliding_window") is not False and raw.get("sliding_window") is not None
    if architecture == "LlamaForCausalLM" and "sliding_attention" not in kinds:
        windowed = False  # a Llama sees everything, whatever else its folder holds, unless a layer says so
    mamba = "mamba" in kinds
    dtype = raw.get("dtype") or raw.get("torch_dtype")
    return Description(
        fields={
            "model": model,
            "architecture": architecture,
            "hf_config": SimpleNamespace(**{"model_type": "llama", **raw}),
            "hidden_size": hidden,
            "num_layers": layers,
            "num_attention_heads": heads,
            "num_kv_heads": number("num_key_value_heads", heads),
            "head_size": number("head_dim", max(1, hidden // heads)),
            "vocab_size": number("vocab_size"),
            "sliding_window": number("sliding_window") if windowed else None,
            "layer_kinds": [_KINDS[kind] for kind in kinds] if mamba else [],
            "is_hybrid": mamba,
            "has_inner_state": mamba,
        },
        dtype=dtype if dtype in MODEL_DTYPES else None,
        max_model_len=max_model_len,
    )


def folder_of(model: str) -> Path:
    """Return the folder of a model.

    Raises:
        ConfigError: there is none.
    """
    if not model or not Path(model).is_dir():
        raise ConfigError(
            f"model_config.model = {model!r}: expected {TOY!r} or the folder of a model, and there is no such folder"
        )
    return Path(model)


def _end_tokens(folder: Path, raw: Mapping[str, Any], where: str) -> list[int]:
    """Return the tokens that end a text; `generation_config.json`, where there is one with some, has the say.

    Raises:
        ConfigError: they are no token numbers.
    """
    described, said_by = raw, where
    file = folder / "generation_config.json"
    if file.exists() and (generation := read_json(file)).get("eos_token_id") is not None:
        described, said_by = generation, str(file)
    ends: object = described.get("eos_token_id")
    several = cast("list[object]", ends) if isinstance(ends, list) else [ends]
    found = [] if ends is None else several
    if not all(NOT_NEGATIVE.accepts(token) for token in found):
        raise ConfigError(f"{said_by}: eos_token_id = {ends!r}: expected a token number or a list of them")
    return cast("list[int]", found)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        ConfigError: there is no such file, or no JSON object in it; one line with its path.
    """
    try:
        value: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return cast("dict[str, Any]", value)


def read_value(
    described: Mapping[str, Any], key: str, check: Check[T], where: object, default: T | None = None
) -> T:
    """Return a value of a description.

    Args:
        described: the description.
        key: of the value.
        check: what is acceptable.
        where: the description's name, for messages.
        default: stands for a value that is missing or null.

    Raises:
        ConfigError: the value is not acceptable, or missing without a default.
    """
    value: Any = described.get(key)
    value = default if value is None else value
    if not check.accepts(value):
        raise ConfigError(f"{where}: {key} = {value!r}: expected {check.expected}")
    return cast("T", value)


def _architecture(raw: Mapping[str, Any], where: str) -> str:
    named: object = raw.get("architectures")
    names = cast("list[object]", named) if isinstance(named, list) else []
    for name in names:
        if name in ARCHITECTURES:
            return str(name)
    raise ConfigError(
        f"{where}: architectures = {named!r}: expected one of {', '.join(ARCHITECTURES)}, which is what this "
        "engine runs"
    )


def _refuse_unknown(raw: Mapping[str, Any], where: str) -> None:
    """Refuse what would compute other numbers than the folder means.

    Raises:
        ConfigError: naming the key.
    """
    activation = raw.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ConfigError(f"{where}: hidden_act = {activation!r}: expected 'silu'")
    if raw.get("quantization_config"):
        raise ConfigError(
            f"{where}: quantization_config: expected plain weights; take the unquantized model and say "
            "--quantization, which quantizes while it loads"
        )


def _layer_types(raw: Mapping[str, Any], layers: int, where: str) -> Sequence[str]:
    named: object = raw.get("layer_types")
    if named is None:
        return ["attention"] * layers
    kinds = cast("list[object]", named) if isinstance(named, list) else []
    wrong = [kind for kind in kinds if not isinstance(kind, str) or kind not in _KINDS]
    if wrong or len(kinds) != layers:
        raise ConfigError(
            f"{where}: layer_types = {named!r}: expected one of {', '.join(_KINDS)} for each of the "
            f"{layers} layers"
        )
    return [str(kind) for kind in kinds]


@attrs.frozen(kw_only=True)
class LlamaShape:
    """What decides what a Llama computes, beside the sizes in its `ModelConfig` and its weights.

    Args:
        intermediate_size: width of the feed-forward part.
        windows: tokens that a layer's token sees, itself included, one a layer; None for all.
        epsilon: of the norms.
        rope: parameters of the rotary embedding, `rope_theta` and `rope_type` among them.
        tied: the head uses the embedding's weight.
        attention_bias: the attention projections have a bias.
        mlp_bias: the feed-forward projections have one.
    """

    intermediate_size: int
    windows: Sequence[int | None]
    epsilon: float
    rope: Mapping[str, Any]
    tied: bool
    attention_bias: bool
    mlp_bias: bool


def shape_of(model: ModelConfig, ranks: int) -> LlamaShape:
    """Read the shape from a configuration, and check that the model can be divided.

    Args:
        model: the model part, which platform hooks have seen.
        ranks: tensor-parallel ranks.

    Raises:
        ConfigError: it describes another kind of model, or cannot be divided so.
    """
    described, where = vars(model.hf_text_config), "model_config.hf_config"
    for field in ("use_mla", "is_encoder_decoder", "is_multimodal_model"):
        if getattr(model, field):
            raise ConfigError(f"model_config.{field} = True: expected a plain decoder")
    types = _layer_types(described, model.num_layers, where)
    window = None if model.disable_sliding_window else model.sliding_window
    inner = read_value(described, "intermediate_size", _SIZE, where, 2 * model.hidden_size)
    _check_division(model, inner, ranks)
    return LlamaShape(
        intermediate_size=inner,
        windows=[None if kind == "full_attention" else window for kind in types],
        epsilon=read_value(described, "rms_norm_eps", between(0, 1, open_high=True), where, 1e-6),
        rope=_rope(described, where),
        tied=read_value(described, "tie_word_embeddings", BOOL, where, default=False),
        attention_bias=read_value(described, "attention_bias", BOOL, where, default=False),
        mlp_bias=read_value(described, "mlp_bias", BOOL, where, default=False),
    )


def _rope(described: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the rotary parameters, wherever the folder's generation keeps them."""
    merged: dict[str, Any] = {"rope_theta": described.get("rope_theta", 10000.0)}
    merged["partial_rotary_factor"] = described.get("partial_rotary_factor") or 1
    for key in ("rope_scaling", "rope_parameters"):
        part: object = described.get(key)
        if part is not None and not isinstance(part, dict):
            raise ConfigError(f"{where}.{key} = {part!r}: expected an object of parameters, or null")
        merged |= cast("dict[str, Any]", part or {})
    if any(isinstance(value, dict) for value in merged.values()):
        raise ConfigError(
            f"{where}.rope_parameters = {merged!r:.200}: expected the same parameters for all layers"
        )
    merged.setdefault("rope_type", merged.get("type") or "default")
    return merged


def _check_division(model: ModelConfig, inner: int, ranks: int) -> None:
    heads, kv_heads = model.num_attention_heads, model.get_total_num_kv_heads()
    if heads % kv_heads:
        raise ConfigError(
            f"model_config.num_kv_heads = {kv_heads}: expected a divisor of the {heads} query heads"
        )
    if model.get_head_size() % 2:
        raise ConfigError(
            f"model_config.head_size = {model.get_head_size()}: rotary embedding needs an even number"
        )
    for what, size in (("num_attention_heads", heads), ("hf_config.intermediate_size", inner)):
        if size % ranks:
            raise ConfigError(
                f"model_config.{what} = {size}: cannot be divided among {ranks} tensor-parallel ranks"
            )
    if kv_heads % ranks and ranks % kv_heads:
        raise ConfigError(
            f"model_config.num_kv_heads = {kv_heads}: expected a multiple or a divisor of the {ranks} "
            "tensor-parallel ranks"
        )
