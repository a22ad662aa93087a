"""Requests in the front end: checked by the engine and by the platform before they are queued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from platform_abc._config_checks import WHOLE
from platform_abc.errors import ConfigError
from platform_abc.requests import EngineInput, SamplingParams
from reference_engine.hook_log import named, owner

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig


@attrs.frozen(kw_only=True)
class Request:
    """One request that may run.

    Args:
        request_id: its name.
        prompt: tokens of the prompt.
        max_tokens: tokens to generate.
    """

    request_id: str
    prompt: Sequence[int]
    max_tokens: int


def process_request(
    config: EngineConfig, request_id: str, prompt: Sequence[int], params: SamplingParams
) -> Request:
    """Check one request, in the front end.

    Args:
        config: the engine's configuration.
        request_id: name of the request.
        prompt: tokens of the prompt.
        params: how it wants to be answered.

    Raises:
        ValueError: the prompt or the parameters are invalid, or the platform refuses the request.
    """
    from platforms import current_platform

    model = config.model_config
    if model is None:
        raise ConfigError("model_config = None: expected a model to run requests on")
    inputs = EngineInput(prompt_token_ids=list(prompt))
    if not inputs.prompt_token_ids:
        raise ValueError(f"request {request_id}: the prompt has no tokens")
    beyond = [token for token in inputs.prompt_token_ids if token >= model.vocab_size]
    if beyond:
        raise ValueError(
            f"request {request_id}: token {beyond[0]} is beyond the vocabulary of {model.vocab_size}"
        )
    try:
        current_platform.validate_request(inputs, params)
    except ValueError:
        raise
    except Exception as error:
        who = owner(current_platform, "validate_request")
        raise ValueError(f"request {request_id}: {who} raised {type(error).__name__}: {error}") from error
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
    return Request(request_id=request_id, prompt=tuple(inputs.prompt_token_ids), max_tokens=min(room, wanted))
