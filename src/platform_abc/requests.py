"""What the request hook gets: one request's tokens and how it wants to be answered."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import attrs

from platform_abc._config_checks import (
    BOOL,
    NAME,
    NOT_NEGATIVE,
    POSITIVE,
    TEXT,
    TEXT_KEYS,
    WHOLE,
    Check,
    between,
    list_of,
    one_of,
    optional,
)

TOKEN_IDS: Check[list[int]] = list_of(NOT_NEGATIVE, "token numbers from 0 on")


@attrs.define(slots=False, kw_only=True)
class SamplingParams:
    """How the next token of a generating request is drawn.

    Args:
        temperature: 0 takes the likeliest token.
        top_p: smallest probability mass that is kept.
        top_k: number of likeliest tokens that are kept; 0 or -1 keeps all.
        max_tokens: most tokens to generate; None up to the model's length.
        seed: seed of this request's draws; None takes the engine's.
    """

    PATH: ClassVar[str] = "sampling_params"

    n: int = attrs.field(default=1, validator=POSITIVE)
    temperature: float = attrs.field(default=1.0, validator=between(0, 1e6))
    top_p: float = attrs.field(default=1.0, validator=between(0, 1, open_low=True))
    top_k: int = attrs.field(
        default=0, validator=Check[int](lambda value: WHOLE.accepts(value) and value >= -1, "-1, 0 or more")
    )
    max_tokens: int | None = attrs.field(default=16, validator=optional(POSITIVE))
    min_tokens: int = attrs.field(default=0, validator=NOT_NEGATIVE)
    seed: int | None = attrs.field(default=None, validator=optional(WHOLE))
    logprobs: int | None = attrs.field(default=None, validator=optional(NOT_NEGATIVE))
    prompt_logprobs: int | None = attrs.field(default=None, validator=optional(NOT_NEGATIVE))
    stop_token_ids: list[int] = attrs.field(factory=list, validator=TOKEN_IDS)
    ignore_eos: bool = attrs.field(default=False, validator=BOOL)
    extra_args: dict[str, Any] = attrs.field(factory=dict, validator=TEXT_KEYS)


@attrs.define(slots=False, kw_only=True)
class PoolingParams:
    """What a request wants that asks for a vector instead of tokens."""

    PATH: ClassVar[str] = "pooling_params"

    task: str = attrs.field(default="embed", validator=one_of(("embed", "classify", "score")))
    dimensions: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    extra_kwargs: dict[str, Any] = attrs.field(factory=dict, validator=TEXT_KEYS)


@attrs.define(slots=False, kw_only=True)
class EngineInput:
    """One request as the engine has processed it.

    A mapping's spelling, `processed_inputs["prompt_token_ids"]`, works too, for hooks written so.

    Args:
        prompt_token_ids: the prompt's tokens.
        type: `token` for plain tokens, `multimodal` where images or sound come along.
        prompt: the text, where the user gave one.
        multi_modal_data: other inputs by kind.
        lora_name: the adapter that was asked for; None for the base model.
    """

    PATH: ClassVar[str] = "processed_inputs"

    prompt_token_ids: list[int] = attrs.field(validator=TOKEN_IDS)
    type: Literal["token", "multimodal"] = attrs.field(
        default="token", validator=one_of(("token", "multimodal"))
    )
    prompt: str | None = attrs.field(default=None, validator=optional(TEXT))
    multi_modal_data: dict[str, Any] = attrs.field(factory=dict, validator=TEXT_KEYS)
    lora_name: str | None = attrs.field(default=None, validator=optional(NAME))

    def __getitem__(self, key: str) -> Any:
        """Return a field by its name.

        Raises:
            KeyError: there is no such field.
        """
        if key not in {field.name for field in attrs.fields(EngineInput)}:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field by its name, or `default` where there is no such field."""
        try:
            return self[key]
        except KeyError:
            return default
