"""Facts of `platforms.zen_cpu`."""

from __future__ import annotations

import logging
import sys
from types import ModuleType

import pytest

from platforms import zen_cpu
from platforms.cpu import CpuPlatform
from platforms.zen_cpu import ZenCpuPlatform


@pytest.fixture(autouse=True)
def ask_again() -> None:
    zen_cpu._import_zentorch.cache_clear()


def test_it_is_a_cpu_platform_and_says_which() -> None:
    """Engines that branch on the CPU take it for one; those that know Zen see it."""
    zen = ZenCpuPlatform()
    assert isinstance(zen, CpuPlatform)
    assert zen.is_cpu()
    assert zen.is_zen_cpu()
    assert not CpuPlatform().is_zen_cpu()
    assert zen.device_type == "cpu"


@pytest.mark.torch
def test_float16_is_not_among_its_dtypes() -> None:
    """Zen computes in bfloat16, which comes first, and float32, on whatever machine one asks."""
    import torch

    assert ZenCpuPlatform().supported_dtypes == [torch.bfloat16, torch.float32]
    with pytest.raises(ValueError, match="bfloat16, float32"):
        ZenCpuPlatform.check_if_supports_dtype(torch.float16)


def test_without_its_library_there_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing library costs a line that names it, once, and no exception."""
    monkeypatch.setitem(sys.modules, "zentorch", None)
    with caplog.at_level(logging.WARNING, "platforms.zen_cpu"):
        ZenCpuPlatform.import_kernels()
        ZenCpuPlatform.import_kernels()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "pip install zentorch" in caplog.text


def test_its_library_is_imported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """With the library there is nothing to say."""
    monkeypatch.setitem(sys.modules, "zentorch", ModuleType("zentorch"))
    ZenCpuPlatform.import_kernels()
    assert caplog.text == ""
