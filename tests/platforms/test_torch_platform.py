"""Facts of what the platforms share whose models torch computes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch._C._distributed_c10d import HashStore, PrefixStore

from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig
from platform_abc.qualname import resolve_obj_by_qualname
from platforms import attention_choice, common, torch_platform
from platforms.components import core_kernels, ir_kernels, torch_kernels
from platforms.cpu import CpuPlatform
from platforms.cuda import CudaPlatform, NvmlCudaPlatform, TorchCudaPlatform
from platforms.process_group import make_group
from platforms.rocm import RocmPlatform
from platforms.torch_platform import TorchPlatform
from platforms.triton_state import TritonState
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
        cls.get_punica_wrapper(),
        cls.get_kv_cache_config_builder_cls(EngineConfig()),
    ):
        assert isinstance(resolve_obj_by_qualname(name), type)
    valid = "TORCH_SDPA" if cls.device_type == "cpu" else "TRITON_ATTN, TORCH_SDPA"
    with pytest.raises(ValueError, match=f"FLASHMLA is not valid on {cls.device_name}; valid are: {valid}"):
        cls.get_attn_backend_cls(AttentionBackendEnum.FLASHMLA, attn_selector_config=facts)
    assert cls.opaque_attention_op()
    assert cls.support_hybrid_kv_cache()


ACCELERATORS = [CudaPlatform, RocmPlatform, XPUPlatform]


@pytest.mark.parametrize("cls", ACCELERATORS)
@pytest.mark.parametrize("usable", [True, False])
def test_accelerators_pick_triton_where_it_is_usable(
    cls: type[TorchPlatform], usable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention and adapters are Triton's then, else torch's; what a user asks for is never replaced."""
    monkeypatch.setattr(
        torch_platform, "triton_state", lambda _kind: TritonState(usable, False, "no device was found")
    )

    def pick(selected: AttentionBackendEnum | None, head_size: int = 80) -> str:
        facts: Any = AttentionSelectorConfig(
            head_size=head_size, dtype=torch.float16, kv_cache_dtype="auto", block_size=7
        )
        return cls.get_attn_backend_cls(selected, attn_selector_config=facts, num_heads=8)

    triton, sdpa = attention_choice.TRITON_ATTN, attention_choice.TORCH_SDPA
    assert pick(None) == (triton if usable else sdpa)
    assert pick(None, head_size=512) == sdpa
    assert pick(AttentionBackendEnum.TORCH_SDPA) == sdpa
    assert cls.get_punica_wrapper() == (common.TRITON_LORA if usable else common.TORCH_LORA)
    with pytest.raises(ValueError, match="TRITON_ATTN .* a head size of 512"):
        pick(AttentionBackendEnum.TRITON_ATTN, head_size=512)
    if usable:
        assert pick(AttentionBackendEnum.TRITON_ATTN) == triton
    else:
        with pytest.raises(ValueError, match="TRITON_ATTN .* no device was found"):
            pick(AttentionBackendEnum.TRITON_ATTN)


@pytest.mark.parametrize("usable", [True, False])
def test_core_kernels_are_overridden_where_triton_cannot_run(
    usable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform registers torch's functions only then; twice is as once, another's override stays."""
    monkeypatch.setattr(torch_platform, "triton_state", lambda _kind: TritonState(usable, False, ""))
    kernels = core_kernels.KERNELS
    monkeypatch.setattr(kernels, "_overrides", {})
    kernels.override("silu_and_mul", len)
    for _ in range(2):
        CpuPlatform.register_triton_kernel_overrides()
    assert kernels.get("silu_and_mul") is len
    expected = core_kernels.rms_norm if usable else torch_kernels.rms_norm
    assert kernels.get("rms_norm") is expected
    assert len(kernels.overridden()) == (1 if usable else len(torch_kernels.FUNCTIONS))


def test_ir_ops_get_triton_where_the_engine_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered twice as once; it declines tensors that no kernel can take, so `native` runs."""
    ops = ir_kernels.IR_OPS
    monkeypatch.setattr(ops, "ops", {})
    CudaPlatform.import_ir_kernels()
    assert ops.ops == {}
    norm = ops.op("rms_norm")(lambda x, _weight, _epsilon: x + 1)
    for _ in range(2):
        CudaPlatform.import_ir_kernels()
    priority = CudaPlatform.get_default_ir_op_priority(EngineConfig())
    ops.set_priorities(priority.by_op())
    assert norm.priority == ("triton", "native")
    x = torch.ones(2, 4)
    monkeypatch.setattr(ir_kernels, "triton_state", lambda _kind: TritonState(False, False, ""))
    assert torch.equal(norm(x, torch.ones(4), 1e-6), x + 1)
    monkeypatch.setattr(ir_kernels, "triton_state", lambda _kind: TritonState(True, False, ""))
    assert norm.choose(x, torch.ones(4), 1e-6).provider == "triton"
    assert norm.choose(x.double(), torch.ones(4), 1e-6).provider == "native"


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
