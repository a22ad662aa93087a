"""Facts of what the platforms share whose models torch computes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch._C._distributed_c10d import HashStore, PrefixStore

from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig
from platform_abc.qualname import resolve_obj_by_qualname
from platforms.cpu import CpuPlatform
from platforms.cuda import CudaPlatform, NvmlCudaPlatform, TorchCudaPlatform
from platforms.process_group import make_group
from platforms.rocm import RocmPlatform
from platforms.torch_platform import TorchPlatform
from platforms.xpu import XPUPlatform
from platforms.zen_cpu import ZenCpuPlatform

CLASSES = [
    CpuPlatform,
    ZenCpuPlatform,
    CudaPlatform,
    NvmlCudaPlatform,
    TorchCudaPlatform,
    RocmPlatform,
    XPUPlatform,
]


@pytest.mark.parametrize("cls", CLASSES)
def test_pickers_answer_on_every_machine(cls: type[TorchPlatform]) -> None:
    """The names lead to classes; a wish for another backend is an error that lists the valid ones."""
    facts: Any = AttentionSelectorConfig(
        head_size=128, dtype=torch.float16, kv_cache_dtype="auto", block_size=None
    )
    for name in (
        cls.get_attn_backend_cls(None, attn_selector_config=facts, num_heads=8),
        cls.get_device_communicator_cls(),
        cls.get_kv_cache_config_builder_cls(EngineConfig()),
    ):
        assert isinstance(resolve_obj_by_qualname(name), type)
    with pytest.raises(
        ValueError, match=f"FLASHMLA is not valid on {cls.device_name}; valid are: TORCH_SDPA"
    ):
        cls.get_attn_backend_cls(AttentionBackendEnum.FLASHMLA, attn_selector_config=facts)
    assert cls.opaque_attention_op()
    assert cls.support_hybrid_kv_cache()


@pytest.mark.parametrize("cls", CLASSES)
def test_a_dtype_that_no_device_computes_in_is_refused(cls: type[TorchPlatform]) -> None:
    """One that all compute in is accepted."""
    cls.check_if_supports_dtype(torch.float32)
    with pytest.raises(ValueError, match=rf"float64: {cls.device_name} computes in .*float32"):
        cls.check_if_supports_dtype(torch.float64)


def test_a_backend_that_this_package_does_not_make_is_named() -> None:
    """A subclass may have one of its own; what it then has to override is said."""

    class Other(CpuPlatform):
        dist_backend: str = "flagcx"

    store = PrefixStore("x", HashStore())
    with pytest.raises(ValueError, match=r"one of gloo, nccl, xccl, got 'flagcx'.*stateless_init_device"):
        Other.stateless_init_device_torch_dist_pg("flagcx", store, 0, 1, None)  # type: ignore[arg-type]


def test_a_group_knows_its_backend() -> None:
    """Gloo serves the host's memory under its own name."""
    from datetime import timedelta

    group = make_group("cpu", "gloo", PrefixStore("x", HashStore()), 0, 1, timedelta(seconds=5))
    assert (group.size(), group._get_backend_name()) == (1, "gloo")
