"""Facts about the forward context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.config import CUDAGraphMode, EngineConfig
from reference_model.forward_context import get_forward_context, set_forward_context

Use = Callable[..., Any]


def test_the_platform_is_asked_with_eight_keywords_and_its_answer_is_there(use_platform: Use) -> None:
    """What the platform adds can be looked up during the step."""
    asked: list[dict[str, Any]] = []

    def add(_cls: type, **kwargs: Any) -> dict[str, Any]:
        asked.append(kwargs)
        return {"stream": 7}

    use_platform(set_additional_forward_context=add)
    config = EngineConfig()
    with set_forward_context(config, {}, {}, 5, cudagraph_runtime_mode=CUDAGraphMode.FULL) as context:
        assert get_forward_context() is context
        assert context.additional == {"stream": 7}
        assert torch.is_inference_mode_enabled()
    assert set(asked[0]) == {
        "attn_metadata",
        "vllm_config",
        "dp_metadata",
        "num_tokens",
        "num_tokens_across_dp",
        "cudagraph_runtime_mode",
        "batch_descriptor",
        "ubatch_slices",
    }
    assert asked[0]["vllm_config"] is config
    assert asked[0]["num_tokens"] == 5


def test_there_is_no_context_outside_of_a_step(use_platform: Use) -> None:
    """Also after a step that failed."""
    use_platform()
    with pytest.raises(KeyError), set_forward_context(EngineConfig(), {}, {}, 1):
        raise KeyError
    with pytest.raises(RuntimeError, match="no step runs"):
        get_forward_context()


def test_an_answer_that_is_no_mapping_is_an_error_that_names_the_hook(use_platform: Use) -> None:
    """None, as a forgotten return, does not pass."""
    use_platform(set_additional_forward_context=lambda _cls, **_kwargs: None)
    with pytest.raises(TypeError, match="set_additional_forward_context of ChangedPlatform returned None"):
        with set_forward_context(EngineConfig(), {}, {}, 1):
            pass


def test_a_measured_step_waits_for_the_device_where_it_can(use_platform: Use) -> None:
    """A device without `synchronize` is not waited for, and that is no error."""
    waited: list[int] = []
    use_platform(synchronize=lambda _cls: waited.append(1))
    with set_forward_context(EngineConfig(), {}, {}, 1) as context:
        pass
    assert context.seconds is None
    with set_forward_context(EngineConfig(), {}, {}, 1, measure=True) as context:
        pass
    assert waited == [1]
    assert context.seconds is not None
    use_platform(synchronize=None)
    with set_forward_context(EngineConfig(), {}, {}, 1, measure=True) as context:
        pass
    assert context.seconds is not None
