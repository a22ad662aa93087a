"""Facts about requests in the front end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from platform_abc.config import EngineConfig, ModelConfig
from platform_abc.requests import EngineInput, SamplingParams
from reference_engine.input_processor import process_request

Use = Callable[..., Any]
CONFIG = EngineConfig(model_config=ModelConfig(vocab_size=10, max_model_len=8))


def test_a_request_gets_what_it_asks_for_as_far_as_there_is_room(use_platform: Use) -> None:
    """The model's length and the device's limit bound the output."""
    use_platform()
    ask = lambda most: process_request(CONFIG, "r", [1, 2], SamplingParams(max_tokens=most)).max_tokens  # noqa: E731
    assert [ask(1), ask(6), ask(7), ask(None)] == [1, 6, 6, 6]
    platform = use_platform()
    platform.get_max_output_tokens = lambda prompt_len: 5 - prompt_len
    assert ask(None) == 3


@pytest.mark.parametrize(
    ("prompt", "text"),
    [([], "no tokens"), ([10], "token 10 is beyond"), ([-1], "prompt_token_ids"), ([1] * 8, "no room")],
)
def test_a_bad_prompt_is_refused_in_words(use_platform: Use, prompt: list[int], text: str) -> None:
    """Before it reaches the platform or the queue."""
    use_platform()
    with pytest.raises(ValueError, match=text):
        process_request(CONFIG, "r", prompt, SamplingParams())


def test_the_platform_sees_the_processed_inputs_and_may_refuse(use_platform: Use) -> None:
    """The hook gets inputs and parameters by position; its text is the user's answer."""
    seen: list[Any] = []

    def validate(_cls: type, inputs: EngineInput, params: SamplingParams) -> None:
        seen.append((inputs["prompt_token_ids"], params.temperature))
        raise ValueError("too warm for this device")

    use_platform(validate_request=validate)
    with pytest.raises(ValueError, match="too warm"):
        process_request(CONFIG, "r", [1, 2], SamplingParams(temperature=2.0))
    assert seen == [([1, 2], 2.0)]


def test_any_exception_of_the_hook_refuses_that_request_and_names_the_hook(use_platform: Use) -> None:
    """A fault in the hook is told like a refusal, with the hook's name and the kind of exception."""

    def fails(_cls: type, inputs: Any, params: Any) -> None:
        raise KeyError("mode")

    use_platform(validate_request=fails)
    with pytest.raises(ValueError, match="hook validate_request of ChangedPlatform raised KeyError"):
        process_request(CONFIG, "r", [1], SamplingParams())


@pytest.mark.parametrize("answer", [None, "5", True, 4.0])
def test_a_limit_that_is_no_number_is_told_with_the_hook(use_platform: Use, answer: object) -> None:
    """The engine does not compute with it."""
    platform = use_platform()
    platform.get_max_output_tokens = lambda prompt_len: answer
    with pytest.raises(ValueError, match="hook get_max_output_tokens of ChangedPlatform returned"):
        process_request(CONFIG, "r", [1], SamplingParams())


def test_requests_need_a_model(use_platform: Use) -> None:
    """Without one it is a config error."""
    use_platform()
    with pytest.raises(ValueError, match="model_config = None"):
        process_request(EngineConfig(), "r", [1], SamplingParams())
