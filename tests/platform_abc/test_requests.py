"""Facts about what the request hook gets."""

from __future__ import annotations

import pytest

from platform_abc.errors import ConfigError
from platform_abc.requests import EngineInput, PoolingParams, SamplingParams


def test_inputs_read_as_attributes_and_as_a_mapping() -> None:
    """Hooks written for either spelling work."""
    inputs = EngineInput(prompt_token_ids=[1, 2])
    assert inputs["prompt_token_ids"] is inputs.prompt_token_ids
    assert inputs["type"] == inputs.get("type") == "token"
    assert inputs.get("images", 7) == 7
    with pytest.raises(KeyError):
        inputs["images"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"temperature": -1.0}, "sampling_params.temperature = -1.0"),
        ({"top_p": 0.0}, "sampling_params.top_p = 0.0"),
        ({"top_k": -2}, "sampling_params.top_k = -2"),
        ({"max_tokens": 0}, "sampling_params.max_tokens = 0"),
        ({"n": True}, "sampling_params.n = True"),
    ],
)
def test_wrong_sampling_parameters_are_refused_by_name(params: dict[str, float], text: str) -> None:
    """Parameters are checked when they are made."""
    with pytest.raises(ConfigError) as caught:
        SamplingParams(**params)
    assert str(caught.value).startswith(text)


def test_prompts_hold_token_numbers_only() -> None:
    """A negative token, or text, is no prompt."""
    for prompt in ([-1], ["a"], "abc", (1, 2)):
        with pytest.raises(ConfigError, match="processed_inputs.prompt_token_ids"):
            EngineInput(prompt_token_ids=prompt)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="pooling_params.task"):
        PoolingParams(task="draw")
