"""Facts about the components that pickers name: the base of each is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from platform_abc.components.kv_cache import AttentionSpec, KVCacheSpec
from platform_abc.config import EngineConfig, LoRAConfig
from reference_engine import kv_cache
from reference_model import compilation, lora

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"
SPECS: Mapping[str, KVCacheSpec] = {
    f"layers.{index}.attention": AttentionSpec(block_size=16, num_kv_heads=1, head_size=8, dtype="float32")
    for index in range(2)
}


def named(name: str) -> Callable[..., str]:
    return lambda _cls, *_args: name


@pytest.mark.parametrize(
    ("picker", "call"),
    [
        (
            "get_kv_cache_config_builder_cls",
            lambda: kv_cache.make_kv_cache_config(EngineConfig(), SPECS, 1 << 20),
        ),
        ("get_pass_manager_cls", lambda: compilation.install_passes(EngineConfig())),
        (
            "get_punica_wrapper",
            lambda: lora.make_punica_wrapper(EngineConfig(), LoRAConfig(), torch.device("cpu")),
        ),
    ],
)
@pytest.mark.parametrize("answer", ["collections.OrderedDict", f"{COMPONENTS}.NOT_A_CLASS"])
def test_a_component_of_the_wrong_base_is_refused_by_picker_and_base(
    use_platform: Use, picker: str, call: Callable[[], object], answer: str
) -> None:
    """The message names what was named, by which picker of whom, and the ABC."""
    use_platform(**{picker: named(answer)})
    with pytest.raises(
        ValueError, match=rf"{answer}, from {picker} of ChangedPlatform, does not\s+derive"
    ) as caught:
        call()
    assert "platform_abc.components." in str(caught.value)
