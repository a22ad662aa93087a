"""Which model the arguments name: a folder, or a toy of the sizes that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from platform_abc.errors import ConfigError
from reference_model.model_config import TOY, Description, describe, describe_folder

if TYPE_CHECKING:
    from reference_engine.args import EngineArgs

TOY_LENGTH: Final = 256
"""Longest sequence of the toy, in tokens, where the user says nothing."""

_TOY_SIZES: Final = (
    "hidden_size",
    "num_layers",
    "num_attention_heads",
    "num_kv_heads",
    "vocab_size",
    "sliding_window",
    "layer_kinds",
)
"""The arguments that say what the toy is like."""


def describe_model(args: EngineArgs) -> Description:
    """Describe the model that the arguments name.

    Args:
        args: `model` is `toy`, whose sizes are the other arguments, or a folder with a `config.json`.

    Raises:
        ConfigError: there is no such folder, or its `config.json` is none of a model that this engine knows.
    """
    if args.model == TOY:
        longest = TOY_LENGTH if args.max_model_len is None else args.max_model_len
        return describe(TOY, _toy(args), "the arguments", longest)
    _refuse_sizes(args)
    return describe_folder(args.model, args.max_model_len)


def _refuse_sizes(args: EngineArgs) -> None:
    """Refuse sizes beside a folder, which has its own.

    Raises:
        ConfigError: naming one that differs from what it is without a word of the user.
    """
    plain = type(args)()
    for name in _TOY_SIZES:
        if getattr(args, name) != getattr(plain, name):
            raise ConfigError(
                f"{name} = {getattr(args, name)!r}: expected no size beside model = {args.model!r}, whose "
                f"config.json says it; only the model {TOY!r} takes sizes from the arguments"
            )


def _toy(args: EngineArgs) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM" if args.sliding_window is None else "MistralForCausalLM"],
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
