"""Facts about low-rank adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from platform_abc.components.lora import LoRAMapping
from platform_abc.config import LoRAConfig
from reference_engine.lora import AdapterSlots
from tests.reference_engine import components

Use = Callable[..., Any]
COMPONENTS = "tests.reference_engine.components"


def test_an_adapter_in_a_slot_changes_its_tokens_only(use_platform: Use) -> None:
    """Slots add what their adapter makes of the input; an empty slot adds nothing."""
    use_platform()
    wrapper = components.TorchPunica(8, 8, "cpu", max_loras=2)
    slots = AdapterSlots(wrapper, LoRAConfig(max_loras=2, max_lora_rank=4), 3, 5)
    lora_a, lora_b = torch.randn(2, 3), torch.randn(5, 2)
    slots.set_adapter(1, lora_a, lora_b)
    wrapper.update_metadata(LoRAMapping(index_mapping=[0, 7, 6], prompt_mapping=[]), [6, 7], 2, 10)
    x, y = torch.randn(3, 3), torch.zeros(3, 5)
    out = slots(y.clone(), x)
    assert torch.allclose(out[1], x[1] @ lora_a.T @ lora_b.T)
    assert out[0].abs().sum() == out[2].abs().sum() == 0
    with pytest.raises(ValueError, match="rank 5 does not fit"):
        slots.set_adapter(0, torch.randn(5, 3), torch.randn(5, 5))
    use_platform(can_update_inplace=lambda _cls: False)
    assert torch.equal(slots(y.clone(), x), out)
    wrapper.add_lora_linear = lambda *_a, **_k: None  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="returned None on a platform that cannot update"):
        slots(y, x)
