"""The questions that vLLM's attention selector asks a platform, built from its own config type."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from conformance.engines.base import SelectorCall
from conformance.engines.shapes import REFUSALS, USUAL, PlainLayer, usual_layers
from conformance.engines.vllm_calls import parameters, shaped
from conformance.model import Skip

_MEMBER: Final = "get_attn_backend_cls"

_chosen: list[PlainLayer] = [USUAL]
"""The plain layer in this process; its usual head size is that of the tiny models, the smallest of vLLM's CPU attention."""

_LATENT_SIZE: Final = 96
"""The head size that an MLA layer names: its latent rank and its rotary part together."""


def fit(platform: Any) -> None:
    """Let the plain question be about a layer that the platform does not refuse, if there is one of usual size."""
    for layer in usual_layers(platform):
        _chosen[:] = [layer]
        try:
            question = selector_calls()[0]
            platform.get_attn_backend_cls(*question.args, **question.kwargs)
        except REFUSALS:
            continue
        except Exception:
            break  # no refusal: the checks tell
        return
    _chosen[:] = [USUAL]


def selector_calls() -> list[SelectorCall]:
    """Return the questions to the attention picker, in the engine's own types and call shape.

    Raises:
        Skip: this vLLM asks with parameters that the kit does not know.
    """
    torch = importlib.import_module("torch")
    layer: dict[str, Any] = {
        "head_size": _chosen[0].head_size,
        "dtype": _chosen[0].torch_dtype,
        "kv_cache_dtype": "auto",
    }
    latent: dict[str, Any] = {"head_size": _LATENT_SIZE, "dtype": torch.bfloat16, "use_mla": True}
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "bfloat16": {"dtype": torch.bfloat16},
        "user-block-size": {"block_size": 32},
        "mla": latent,
        "sparse": {**latent, "use_sparse": True},
        "fp8-kv": {"kv_cache_dtype": "fp8"},
        "sliding-window": {"has_sliding_window": True},
        "encoder": {"attn_type": "encoder_only"},
    }
    found: list[SelectorCall] = []
    for case, changes in cases.items():
        values = _values({**layer, **changes})
        if values is None:
            continue  # a question that this version cannot put
        call = shaped(_MEMBER, values)
        found.append(SelectorCall(case, call.args, call.kwargs, must_answer=case == "plain"))
    if not found or not found[0].must_answer:
        raise Skip(
            "the attention selector of the installed vLLM asks with parameters that the kit does not know",
            "use a newer kit, or a vLLM that the kit's documentation names",
        )
    return found


def _values(asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments of the picker by parameter name; None where this vLLM has no such parameter."""
    values: dict[str, Any] = {"num_heads": 4 if asked.get("use_mla") else None}
    config = _config_class()
    if config is None:  # older selectors pass every value as a parameter of its own
        defaults = {
            "block_size": 16,
            "use_v1": True,
            "use_mla": False,
            "has_sink": False,
            "use_sparse": False,
        }
        known = parameters(_MEMBER)
        return {**values, **defaults, **asked} if set(asked) <= set(known) else None
    if not set(asked) <= set(config._fields):
        return None
    required: dict[str, Any] = dict.fromkeys(set(config._fields) - set(config._field_defaults))
    return {**values, "attn_selector_config": config(**{**required, **asked})}


def _config_class() -> Any:
    """The named tuple that the selector hands over, None in a version that has none."""
    for module in ("vllm.v1.attention.selector", "vllm.attention.selector"):
        try:
            return importlib.import_module(module).AttentionSelectorConfig
        except (ImportError, AttributeError):
            continue
    return None
