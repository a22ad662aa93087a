"""What a model is like: read from a Hugging Face folder, or said by the arguments of a toy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from platform_abc.config import ModelConfig
from platform_abc.config_values import MODEL_DTYPES
from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    from platform_abc.config_model import LayerKind
    from reference_engine.args import EngineArgs

ARCHITECTURES: Final = ("LlamaForCausalLM", "MistralForCausalLM")
"""The model classes whose folders this engine reads; their weights have the same names and uses."""

TOY: Final = "toy"
TOY_LENGTH: Final = 256
FOLDER_LENGTH: Final = 2048
"""Longest sequence in tokens where the user says nothing, of the toy and of a folder that allows more."""

_KINDS: Final[Mapping[str, LayerKind]] = {
    "attention": "attention",
    "full_attention": "attention",
    "sliding_attention": "attention",
    "mamba": "mamba",
}


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


def describe_model(args: EngineArgs) -> Description:
    """Describe the model that the arguments name.

    Args:
        args: `model` is `toy`, whose sizes are the other arguments, or a folder with a `config.json`.

    Raises:
        ConfigError: there is no such folder, or its `config.json` is none of a model that this engine knows.
    """
    if args.model == TOY:
        return _described(_toy(args), args, where="the arguments", positions=TOY_LENGTH, dtype=None)
    path = Path(args.model) / "config.json"
    if not Path(args.model).is_dir():
        raise ConfigError(
            f"model_config.model = {args.model!r}: expected {TOY!r} or the folder of a model, and there is "
            "no such folder"
        )
    raw = read_json(path)
    dtype = raw.get("dtype") or raw.get("torch_dtype")
    trained = _number(raw, "max_position_embeddings", FOLDER_LENGTH, path)
    asked = args.max_model_len
    if isinstance(asked, int) and asked > trained:
        raise ConfigError(
            f"model_config.max_model_len = {asked}: {path} says max_position_embeddings = {trained}; "
            "expected at most that"
        )
    return _described(
        raw,
        args,
        where=str(path),
        positions=min(FOLDER_LENGTH, trained),
        dtype=dtype if dtype in MODEL_DTYPES else None,
    )


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


def _toy(args: EngineArgs) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": args.hidden_size,
        # The usual ratio of a gated feed-forward part, in steps that two ranks can share.
        "intermediate_size": -(-args.hidden_size * 8 // 3 // 16) * 16,
        "num_hidden_layers": args.num_layers,
        "num_attention_heads": args.num_attention_heads,
        "num_key_value_heads": args.num_kv_heads or None,
        "vocab_size": args.vocab_size,
        "sliding_window": args.sliding_window,
        "layer_types": list(args.layer_kinds) or None,
    }


def _described(
    raw: Mapping[str, Any], args: EngineArgs, *, where: str, positions: int, dtype: str | None
) -> Description:
    architecture = _architecture(raw, where)
    _refuse_unknown(raw, where)
    hidden = _number(raw, "hidden_size", None, where)
    heads = _number(raw, "num_attention_heads", None, where)
    layers = _number(raw, "num_hidden_layers", None, where)
    kinds = _layer_types(raw, layers, where)
    windowed = raw.get("use_sliding_window") is not False and raw.get("sliding_window") is not None
    mamba = "mamba" in kinds
    return Description(
        fields={
            "model": args.model,
            "architecture": architecture,
            "hf_config": SimpleNamespace(**{"model_type": "llama", **raw}),
            "hidden_size": hidden,
            "num_layers": layers,
            "num_attention_heads": heads,
            "num_kv_heads": _number(raw, "num_key_value_heads", heads, where),
            "head_size": _number(raw, "head_dim", max(1, hidden // heads), where),
            "vocab_size": _number(raw, "vocab_size", None, where),
            "sliding_window": _number(raw, "sliding_window", None, where) if windowed else None,
            "layer_kinds": [_KINDS[kind] for kind in kinds] if mamba else [],
            "is_hybrid": mamba,
            "has_inner_state": mamba,
        },
        dtype=dtype,
        max_model_len=positions if args.max_model_len is None else args.max_model_len,
    )


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


def _number(raw: Mapping[str, Any], key: str, default: int | None, where: object) -> int:
    value = raw.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{where}: {key} = {value!r}: expected a whole number of at least 1")
    return value


def _layer_types(raw: Mapping[str, Any], layers: int, where: str) -> Sequence[str]:
    named: object = raw.get("layer_types")
    if named is None:
        return ["attention"] * layers
    kinds = cast("list[object]", named) if isinstance(named, list) else []
    wrong = [kind for kind in kinds if kind not in _KINDS]
    if wrong or len(kinds) != layers:
        raise ConfigError(
            f"{where}: layer_types = {named!r}: expected one of {', '.join(_KINDS)} for each of the "
            f"{layers} layers"
        )
    return [str(kind) for kind in kinds]


@attrs.frozen(kw_only=True)
class LlamaShape:
    """Everything that decides what a Llama computes, but its weights.

    Args:
        hidden_size: width of the residual stream.
        intermediate_size: width of the feed-forward part.
        heads: query heads of the whole model.
        kv_heads: key and value heads of the whole model.
        head_size: elements of a head.
        vocab_size: tokens.
        kinds: `attention` or `mamba`, one a layer.
        windows: tokens that a layer's token sees, itself included, one a layer; None for all.
        epsilon: of the norms.
        rope: parameters of the rotary embedding, `rope_theta` and `rope_type` among them.
        tied: the head uses the embedding's weight.
        attention_bias: the attention projections have a bias.
        mlp_bias: the feed-forward projections have one.
    """

    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_size: int
    vocab_size: int
    kinds: Sequence[LayerKind]
    windows: Sequence[int | None]
    epsilon: float
    rope: Mapping[str, Any]
    tied: bool
    attention_bias: bool
    mlp_bias: bool


def shape_of(model: ModelConfig, ranks: int) -> LlamaShape:
    """Read the shape from a configuration, and check that it can be divided.

    Args:
        model: the model part, which platform hooks have seen; its fields win over the folder's.
        ranks: tensor-parallel ranks.

    Raises:
        ConfigError: it describes another kind of model, or cannot be divided so.
    """
    described = vars(model.hf_text_config)
    where = "model_config.hf_config"
    for field in ("use_mla", "is_encoder_decoder", "is_multimodal_model"):
        if getattr(model, field):
            raise ConfigError(f"model_config.{field} = True: expected a plain decoder")
    kinds: list[LayerKind] = [model.kind_of_layer(index) for index in range(model.num_layers)]
    types = _layer_types(described, model.num_layers, where)
    window = None if model.disable_sliding_window else model.sliding_window
    shape = LlamaShape(
        hidden_size=model.hidden_size,
        intermediate_size=_number(described, "intermediate_size", 2 * model.hidden_size, where),
        heads=model.num_attention_heads,
        kv_heads=model.get_total_num_kv_heads(),
        head_size=model.get_head_size(),
        vocab_size=model.vocab_size,
        kinds=kinds,
        windows=[None if kind == "full_attention" else window for kind in types],
        epsilon=_epsilon(described, where),
        rope=_rope(described, where),
        tied=_flag(described, "tie_word_embeddings", where),
        attention_bias=_flag(described, "attention_bias", where),
        mlp_bias=_flag(described, "mlp_bias", where),
    )
    _check_division(shape, ranks)
    return shape


def _flag(described: Mapping[str, Any], key: str, where: str) -> bool:
    value = described.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{where}.{key} = {value!r}: expected true or false")
    return bool(value)


def _epsilon(described: Mapping[str, Any], where: str) -> float:
    value = described.get("rms_norm_eps", 1e-6)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise ConfigError(f"{where}.rms_norm_eps = {value!r}: expected a number from 0 to 1")
    return float(value)


def _rope(described: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the rotary parameters, wherever the folder's generation keeps them."""
    merged: dict[str, Any] = {"rope_theta": described.get("rope_theta", 10000.0)}
    for key in ("rope_scaling", "rope_parameters"):
        part: object = described.get(key)
        if part is not None and not isinstance(part, dict):
            raise ConfigError(f"{where}.{key} = {part!r}: expected an object of parameters, or null")
        merged |= cast("dict[str, Any]", part or {})
    merged.setdefault("rope_type", merged.get("type") or "default")
    return merged


def _check_division(shape: LlamaShape, ranks: int) -> None:
    if shape.heads % shape.kv_heads:
        raise ConfigError(
            f"model_config.num_kv_heads = {shape.kv_heads}: expected a divisor of the {shape.heads} query heads"
        )
    if shape.head_size % 2:
        raise ConfigError(
            f"model_config.head_size = {shape.head_size}: rotary embedding needs an even number"
        )
    for what, size in (
        ("model_config.num_attention_heads", shape.heads),
        ("model_config.hf_config.intermediate_size", shape.intermediate_size),
    ):
        if size % ranks:
            raise ConfigError(f"{what} = {size}: cannot be divided among {ranks} tensor-parallel ranks")
    if shape.kv_heads % ranks and ranks % shape.kv_heads:
        raise ConfigError(
            f"model_config.num_kv_heads = {shape.kv_heads}: expected a multiple or a divisor of the {ranks} "
            "tensor-parallel ranks"
        )
