"""Facts about which model the arguments name."""

from __future__ import annotations

import pytest

from platform_abc.errors import ConfigError
from reference_engine.args import EngineArgs
from reference_engine.model_args import describe_model


def test_the_toy_has_the_sizes_of_the_arguments() -> None:
    """And is a Llama like any other."""
    found = describe_model(
        EngineArgs(hidden_size=96, num_layers=3, num_kv_heads=0, layer_kinds=["mamba"] * 3)
    )
    fields = found.fields
    assert (fields["hidden_size"], fields["num_layers"], fields["num_kv_heads"]) == (96, 3, 4)
    assert fields["architecture"] == "LlamaForCausalLM"
    assert (fields["is_hybrid"], fields["layer_kinds"]) == (True, ["mamba"] * 3)
    assert (found.max_model_len, found.dtype) == (256, None)


def test_a_toy_with_a_window_is_of_the_family_that_has_one() -> None:
    """A Llama has none."""
    fields = describe_model(EngineArgs(sliding_window=7)).fields
    assert (fields["architecture"], fields["sliding_window"]) == ("MistralForCausalLM", 7)
    with pytest.raises(ConfigError, match="sliding_window = 0: expected a whole number"):
        describe_model(EngineArgs(sliding_window=0))


def test_sizes_beside_a_folder_are_refused() -> None:
    """The folder has its own; which one differs is told."""
    with pytest.raises(ConfigError, match="num_layers = 3: expected no size beside model = 'elsewhere'"):
        describe_model(EngineArgs(model="elsewhere", num_layers=3))
