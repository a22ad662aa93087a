"""Boots the reference engine on a toy model."""

from __future__ import annotations

from typing import Any, Final, cast

import attrs

from conformance.engines import native_tokens, user_arguments
from conformance.engines.base import BootPlan
from conformance.engines.boot import PROMPTS, TOKENS
from conformance.engines.front_boot import CLOSING
from conformance.engines.hooks_boot import note, told
from conformance.engines.plugin_boot import NAME
from conformance.engines.shapes import PlainLayer, served_layer

_DRIVE: Final = "conformance.engines.native_boot:drive"
_SECONDS: Final = 90.0
_SIZES: Final = ("model", "hidden_size", "num_attention_heads")
"""Arguments that say what the model's layers are like."""


def plan(layout: str) -> BootPlan:
    """How the reference engine is booted; the layout goes to `drive`.

    Raises:
        UsageProblem: the user names an argument that it does not have.
    """
    from reference_engine.args import EngineArgs

    user_arguments.require_known(list(attrs.fields_dict(EngineArgs)))
    environment = {"PLATFORM_ABC_PLUGINS": NAME, "PLATFORM_ABC_TARGET_DEVICE": None, "OMP_NUM_THREADS": "1"}
    drive = "conformance.engines.native_tokens:drive" if layout in native_tokens.LAYOUTS else _DRIVE
    return BootPlan(drive, _SECONDS, environment, "platforms.cpu:CpuPlatform")


def drive(layout: str) -> dict[str, Any]:
    """Generate on the reference engine, then close it.

    Args:
        layout: of `platform_abc.timeline.Layout`.

    Returns:
        What was generated, see `conformance.checks._boots`.
    """
    from platform_abc.requests import SamplingParams
    from reference_engine.args import EngineArgs
    from reference_engine.engine import Engine

    def generate(engine: Engine, prompts: list[list[int]], most: int = TOKENS) -> list[list[int] | str]:
        results = engine.generate(prompts, SamplingParams(max_tokens=most, temperature=0.0))
        return [one.error or list(one.tokens) for one in results]

    layer, given = layer_of_run(), user_arguments.given()
    asked: dict[str, Any] = {"dtype": dtype_of_run(layer), "max_model_len": 128, "max_num_seqs": 4}
    if given.keys().isdisjoint(_SIZES):
        asked["hidden_size"] = layer.head_size * EngineArgs().num_attention_heads
    asked.update(given)
    asked["executor"] = "uni" if layout == "one-process" else "mp"
    # A hook that hangs is for the kit to find, which knows more of it.
    asked.setdefault("hook_timeout", 4 * _SECONDS)
    args = EngineArgs(**asked)
    with Engine(args, traced=True) as engine:
        first = generate(engine, PROMPTS)
        again = generate(engine, PROMPTS)
        more: dict[str, Any] = {}
        if layout == "one-process":
            # What holds in one process holds where the same tokens come out of several.
            more["alone"] = [generate(engine, [prompt])[0] for prompt in PROMPTS]
            more["rest"] = [
                generate(engine, [prompt + tokens[: TOKENS // 2]], TOKENS // 2)[0]
                for prompt, tokens in zip(PROMPTS, first, strict=True)
                if not isinstance(tokens, str)
            ]
        model = engine.config.model_config
        assert model is not None
        vocabulary = model.vocab_size  # a user's arguments may name a model of their own
        seen = [[one.process.value, one.name, one.instance] for one in engine.traces()]
        note(CLOSING, "step")
    return {
        "vocabulary": vocabulary,
        "exact": args.dtype == "float32",
        "first": first,
        "again": again,
        "seen": seen,
        **more,
    }


def layer_of_run() -> PlainLayer:
    """The layers of the model: of the usual size, or of one that the platform serves."""
    from platforms import current_platform

    return served_layer(current_platform, by_backend=True)


def dtype_of_run(layer: PlainLayer) -> str:
    """float32 where the platform has it, so that rounding decides no token.

    Args:
        layer: of the model.
    """
    from platforms import current_platform

    try:
        known: Any = cast("Any", current_platform).supported_dtypes
        return layer.dtype if any(dtype is layer.torch_dtype for dtype in known) else "auto"
    except Exception as error:
        note("supported_dtypes", "raise", **told(error))
        return "auto"  # the engine itself asks again, and its answer counts
