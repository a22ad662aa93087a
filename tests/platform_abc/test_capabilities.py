"""The defaults of the Capabilities group."""

from __future__ import annotations

import pytest

from platform_abc import PlatformEnum
from platform_abc.capabilities import has_capabilities_v2
from tests.platform_abc.contract_platforms import Complete


@pytest.mark.parametrize(
    ("capability", "answer"),
    [
        ("is_cumem_allocator_available", False),
        ("can_update_inplace", True),
        ("supports_mx", False),
        ("supports_fp8", False),
        ("is_fp8_fnuz", False),
        ("use_all_gather", True),
        ("use_custom_allreduce", False),
        ("support_hybrid_kv_cache", False),
        ("support_static_graph_mode", False),
        ("support_deep_gemm", False),
        ("use_custom_op_collectives", False),
        ("get_nixl_supported_devices", {}),
        ("get_nixl_memory_type", None),
        ("is_arch_support_pdl", False),
        ("is_on_gfx9", False),
    ],
)
def test_default_of_a_capability(capability: str, answer: object) -> None:
    """A platform has no ability that needs a kernel or a driver, unless it says so."""
    assert getattr(Complete(), capability)() == answer


def test_streams_do_not_overlap_by_default() -> None:
    """Whatever streams there are."""
    assert Complete.enable_multi_stream_overlap(None, object()) is False


@pytest.mark.parametrize("kind", PlatformEnum, ids=lambda kind: kind.name)
def test_sleep_mode_is_for_the_three_kinds_that_can(kind: PlatformEnum) -> None:
    """CUDA, ROCm and XPU can release device memory."""

    class Kind(Complete):
        _enum = kind

    assert Kind().is_sleep_mode_available() is (kind.name in {"CUDA", "ROCM", "XPU"})


def test_version_two_is_asked_of_the_type() -> None:
    """A class that does not define the new capability does not have it."""

    class Old:
        """Nothing of it."""

    assert has_capabilities_v2(Complete())
    assert not has_capabilities_v2(Old())  # type: ignore[arg-type]
