"""Requests in the front end: checked by the engine and by the platform before they are queued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import attrs

from platform_abc._config_checks import NOT_NEGATIVE, WHOLE
from platform_abc.errors import ConfigError
from platform_abc.foreign import describe, shown
from platform_abc.hooks.calls import named, owner
from platform_abc.hooks.watch import said
from platform_abc.requests import EngineInput, SamplingParams

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from platform_abc.config_model import ModelConfig


@attrs.frozen(kw_only=True)
class Request:
    """One request that may run.

    Args:
        request_id: its name.
        prompt: tokens of the prompt.
        max_tokens: most tokens to generate.
        min_tokens: so many tokens at least, whatever they are.
        stop: tokens that end it; the last one generated is one of them then.
        lora_id: the adapter; 0 for the base model.
    """

    request_id: str
    prompt: Sequence[int]
    max_tokens: int
    min_tokens: int = 0
    stop: frozenset[int] = frozenset()
    lora_id: int = 0

    def ends_with(self, count: int, last: int) -> bool:
        """Say whether nothing more is generated.

        Args:
            count: tokens that were generated.
            last: the last of them.
        """
        return count >= self.max_tokens or (count >= self.min_tokens and last in self.stop)


def process_request(
    config: EngineConfig, request_id: str, prompt: Sequence[int], params: SamplingParams, lora_id: int = 0
) -> Request:
    """Check one request, in the front end.

    Args:
        config: the engine's configuration.
        request_id: name of the request.
        prompt: tokens of the prompt.
        params: how it wants to be answered.
        lora_id: the adapter; 0 for the base model.

    Raises:
        ValueError: the prompt or the parameters are invalid, or the platform refuses the request.
    """
    from platforms import current_platform

    model = config.model_config
    if model is None:
        raise ConfigError("model_config = None: expected a model to run requests on")
    try:
        inputs = EngineInput(prompt_token_ids=_tokens(prompt, model), lora_name=_adapter(config, lora_id))
        _check_params(params)
    except Exception as error:
        # All of it is a user's, and its own code may raise anything.
        raise ValueError(f"request {request_id}: {said(error)}") from error
    try:
        current_platform.validate_request(inputs, params)
    except (ValueError, KeyboardInterrupt):
        raise
    except BaseException as error:
        who = owner(current_platform, "validate_request")
        raise ValueError(f"request {request_id}: {who} raised {describe(error)}") from error
    length = len(inputs.prompt_token_ids)
    with named("get_max_output_tokens", current_platform):
        allowed = current_platform.get_max_output_tokens(length)
    if not WHOLE.accepts(allowed):
        who = owner(current_platform, "get_max_output_tokens")
        raise ValueError(f"request {request_id}: {who} returned {allowed!r}, expected {WHOLE.expected}")
    room = min(model.max_model_len - length, allowed)
    if room < 1:
        raise ValueError(
            f"request {request_id}: a prompt of {length} tokens leaves no room for output "
            f"(model_config.max_model_len = {model.max_model_len})"
        )
    wanted = room if params.max_tokens is None else params.max_tokens
    return Request(
        request_id=request_id,
        prompt=tuple(inputs.prompt_token_ids),
        max_tokens=min(room, wanted),
        min_tokens=params.min_tokens,
        stop=frozenset(params.stop_token_ids)
        if params.ignore_eos
        else _ends(model).union(params.stop_token_ids),
        lora_id=lora_id,
    )


def _tokens(prompt: Sequence[int], model: ModelConfig) -> list[int]:
    given = cast("object", prompt)  # from a user, so its annotation proves nothing
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise ValueError(f"expected a sequence of token numbers as the prompt, got {shown(given)}")
    tokens = list(prompt)
    if not tokens:
        raise ValueError("the prompt has no tokens")
    beyond = [token for token in tokens if WHOLE.accepts(token) and token >= model.vocab_size]
    if beyond:
        raise ValueError(f"token {beyond[0]} is beyond the vocabulary of {model.vocab_size}")
    return tokens


def _adapter(config: EngineConfig, lora_id: int) -> str | None:
    """Return the name of the adapter for hooks."""
    if not NOT_NEGATIVE.accepts(lora_id):
        raise ValueError(f"expected an adapter number from 0 on, got {shown(lora_id)}")
    if lora_id == 0:
        return None
    if config.lora_config is None:
        raise ValueError(f"it wants the adapter {lora_id}, but the engine has none: set enable_lora")
    known = len(config.lora_config.lora_modules)
    if lora_id > known:
        raise ValueError(f"it wants the adapter {lora_id}, the engine has {known}")
    return str(lora_id)


def _check_params(params: SamplingParams) -> None:
    given = cast("object", params)
    if not isinstance(given, SamplingParams):
        raise ValueError(f"expected SamplingParams, got {shown(given)}")
    if params.n != 1 or params.logprobs is not None or params.prompt_logprobs is not None:
        raise ValueError(
            "expected n = 1 and no logprobs, this engine answers with the likeliest tokens alone"
        )


def _ends(model: ModelConfig) -> frozenset[int]:
    """Return the tokens that end a text, as the model's own description has them: one, several or none."""
    ends: object = getattr(model.hf_text_config, "eos_token_id", None)
    found = cast("Sequence[object]", ends) if isinstance(ends, (list, tuple)) else (ends,)
    return frozenset(token for token in found if isinstance(token, int))
