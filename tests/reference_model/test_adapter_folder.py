"""Facts about the folders of adapters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from platform_abc.errors import ConfigError
from reference_model.adapter_folder import read_adapter
from tests.reference_engine.adapters import save


def test_a_folder_without_its_parts_is_refused(tmp_path: Path) -> None:
    """No folder, one matrix of two, another tensor, a rank that is too large."""
    with pytest.raises(ConfigError, match="adapter_config.json: cannot be read: No such file"):
        read_adapter(tmp_path / "none")
    folder = save(tmp_path / "half", {"lm_head": (torch.zeros(3, 4), torch.zeros(4, 3))})
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"adapter_model.safetensors: no such file"):
        read_adapter(folder)
    from safetensors.torch import save_file

    save_file(
        {"base_model.model.lm_head.lora_A.weight": torch.zeros(3, 4)},
        str(folder / "adapter_model.safetensors"),
    )
    with pytest.raises(ConfigError, match="lm_head has only one of its two matrices"):
        read_adapter(folder)
    save_file(
        {"base_model.model.lm_head.weight": torch.zeros(3, 4)}, str(folder / "adapter_model.safetensors")
    )
    with pytest.raises(ConfigError, match="expected the two matrices of a projection"):
        read_adapter(folder)


def test_an_adapter_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    """One of rank 0, and one that waits for some tokens before it does anything."""
    folder = save(tmp_path / "empty", {"lm_head": (torch.zeros(0, 4), torch.zeros(4, 0))})
    with pytest.raises(ConfigError, match="lm_head has matrices of rank 0, expected at least 1"):
        read_adapter(folder)
    folder = save(tmp_path / "waits", {"lm_head": (torch.ones(1, 4), torch.ones(4, 1))})
    config = folder / "adapter_config.json"
    described = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**described, "alora_invocation_tokens": [5]}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"alora_invocation_tokens = \[5\]: expected \[\]"):
        read_adapter(folder)


def test_rank_stabilised_scale_divides_by_the_root(tmp_path: Path) -> None:
    """`use_rslora` in the folder's configuration."""
    found = {"lm_head": (torch.ones(4, 2), torch.ones(2, 4))}
    plain = read_adapter(save(tmp_path / "plain", found, lora_alpha=8))
    rooted = read_adapter(save(tmp_path / "rooted", found, lora_alpha=8, use_rslora=True))
    assert plain.pairs["lm_head"][1].tolist() == [[2.0] * 4] * 2
    assert rooted.pairs["lm_head"][1].tolist() == [[4.0] * 4] * 2
