"""Facts of the TPU platform: its own answers, and what it names in the package `tpu_inference`."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from platform_abc.config import (
    AttentionBackendEnum,
    AttentionSelectorConfig,
    EngineConfig,
    ParallelConfig,
)
from platform_abc.errors import ConfigError, DeviceUnavailable, MissingDependency, NotSupported
from platform_abc.types import PlatformEnum
from platforms import tpu, tpu_chips
from platforms.tpu import TpuPlatform

VARIABLE = "TPU_VISIBLE_CHIPS"
GIB = 1024**3


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    tpu._say_what_is_missing.cache_clear()


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "tpu_inference" else real(name, *a)
    )


@pytest.fixture
def with_package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tpu_inference")
    module.__spec__ = importlib.util.spec_from_loader("tpu_inference", loader=None)
    monkeypatch.setitem(sys.modules, "tpu_inference", module)


@pytest.fixture
def v6e_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four v6e chips, and a network card of Google's."""
    for number, device in enumerate(["0x006f", "0x006f", "0x0042", "0x006f", "0x006f"]):
        folder = tmp_path / f"sys/bus/pci/devices/0000:00:0{number}.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x1ae0\n")
        (folder / "device").write_text(device + "\n")
    monkeypatch.setattr(tpu, "chips", lambda: tpu_chips.chips(tmp_path))


def selector(**fields: Any) -> AttentionSelectorConfig:
    return AttentionSelectorConfig(
        **{"head_size": 128, "dtype": None, "kv_cache_dtype": "auto", "block_size": None, **fields}
    )


def test_its_identity() -> None:
    """The names and keys under which engines, torch and Ray know it."""
    p = TpuPlatform()
    assert p._enum is PlatformEnum.TPU
    assert (p.device_name, p.device_type, p.dispatch_key) == ("tpu", "tpu", "XLA")
    assert (p.ray_device_key, p.device_control_env_var) == ("TPU", VARIABLE)
    assert p.is_tpu()
    assert p.uses_host_device_handling()


def test_without_its_package_it_says_so_in_one_line(
    without_package: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The class exists and answers for itself; what the package supplies is a missing dependency."""
    with caplog.at_level(logging.ERROR):
        for call in (
            lambda: TpuPlatform.check_and_update_config(EngineConfig()),
            lambda: TpuPlatform.get_attn_backend_cls(None, attn_selector_config=selector(), num_heads=4),
            TpuPlatform.get_punica_wrapper,
        ):
            with pytest.raises(MissingDependency, match="pip install tpu-inference"):
                call()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "tpu-inference" in caplog.text


def test_with_its_package_it_names_its_classes(with_package: None) -> None:
    """Worker, attention, latent attention and LoRA."""
    config = EngineConfig()
    TpuPlatform.check_and_update_config(config)
    TpuPlatform.check_and_update_config(config)
    assert config.parallel_config.worker_cls == "tpu_inference.worker.tpu_worker.TPUWorker"
    plain = TpuPlatform.get_attn_backend_cls(None, attn_selector_config=selector(), num_heads=4)
    asked = TpuPlatform.get_attn_backend_cls(AttentionBackendEnum.PALLAS, attn_selector_config=selector())
    assert plain == asked == "tpu_inference.layers.vllm.backends.flash_attn.PallasAttentionBackend"
    assert TpuPlatform.get_attn_backend_cls(None, attn_selector_config=selector(use_mla=True)).endswith(
        "flash_attn_mla.PallasMLAttentionBackend"
    )
    assert TpuPlatform.get_punica_wrapper() == "tpu_inference.lora.torch_punica_tpu.PunicaWrapperTPU"


def test_a_users_worker_needs_no_package(without_package: None) -> None:
    """Who brings a worker of one's own is not asked to install another."""
    config = EngineConfig(parallel_config=ParallelConfig(worker_cls="mine.Worker"))
    TpuPlatform.check_and_update_config(config)
    assert config.parallel_config.worker_cls == "mine.Worker"


def test_a_wrong_wish_is_refused_before_the_package_is_asked_for(without_package: None) -> None:
    """The valid name is in the text."""
    with pytest.raises(ConfigError, match="FLASH_ATTN is not valid on tpu; valid are: PALLAS"):
        TpuPlatform.get_attn_backend_cls(AttentionBackendEnum.FLASH_ATTN, attn_selector_config=selector())
    config = EngineConfig()
    config.attention_config.backend = AttentionBackendEnum.FLASH_ATTN
    with pytest.raises(ConfigError, match=r"attention_config.backend"):
        TpuPlatform.check_and_update_config(config)
    with pytest.raises(ConfigError, match="sparse"):
        TpuPlatform.get_attn_backend_cls(None, attn_selector_config=selector(use_sparse=True))


def test_chips_are_known_by_their_pci_ids(v6e_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, memory and cores come without starting the TPU run time, which takes the chips."""
    assert TpuPlatform.device_count() == 4
    assert TpuPlatform.get_device_name(3) == "TPU v6e"
    assert TpuPlatform.get_device_total_memory() == 32 * GIB
    assert TpuPlatform.num_compute_units() == 1
    with pytest.raises(IndexError, match="device 4 does not exist: this machine has 4"):
        TpuPlatform.get_device_name(4)
    monkeypatch.setenv(VARIABLE, "2,3")
    assert TpuPlatform.device_count() == 2
    with pytest.raises(IndexError, match=VARIABLE):
        TpuPlatform.get_device_name(2)
    monkeypatch.setenv(VARIABLE, "0,9")
    with pytest.raises(ValueError, match=f"device 9 does not exist: .* has 4.*{VARIABLE}='0,9'"):
        TpuPlatform.get_device_name(1)
    assert "jax" not in sys.modules


def test_without_a_chip_each_query_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No PCI bus, no chips; what only the worker knows is declared."""
    monkeypatch.setattr(tpu, "chips", lambda: tpu_chips.chips(tmp_path))
    for query in (
        TpuPlatform.get_device_name,
        TpuPlatform.get_device_total_memory,
        TpuPlatform.num_compute_units,
    ):
        with pytest.raises(DeviceUnavailable, match="TPU host"):
            query()
    assert TpuPlatform.device_count() == 0
    assert TpuPlatform.get_device_capability() is None
    with pytest.raises(NotSupported, match="memory_stats"):
        TpuPlatform.get_current_memory_usage()


def test_abilities() -> None:
    """Arrays do not change in place, host memory is not pinned, all ranks run one program."""
    assert not TpuPlatform.can_update_inplace()
    assert not TpuPlatform.is_pin_memory_available()
    assert TpuPlatform.use_all_gather()
    assert TpuPlatform.get_compile_backend() == "eager"


@pytest.mark.torch
def test_dtypes_seed_and_modes() -> None:
    """bfloat16 comes first, float16 is refused; the seed is the host generator's; gradients are off."""
    import torch

    assert TpuPlatform().supported_dtypes == [torch.bfloat16, torch.float32]
    with pytest.raises(ConfigError, match="float16: tpu computes in bfloat16, float32"):
        TpuPlatform.check_if_supports_dtype(torch.float16)
    TpuPlatform.manual_seed_all(3)
    first = torch.rand(2)
    TpuPlatform.manual_seed_all(3)
    assert torch.equal(first, torch.rand(2))
    TpuPlatform.set_device(torch.device("cpu"))
    with TpuPlatform.inference_mode():
        assert not torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
