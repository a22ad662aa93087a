"""The Identity group: defaults, predicates, the processor's architecture."""

from __future__ import annotations

import platform

import pytest

from platform_abc import CpuArchEnum, PlatformEnum
from tests.platform_abc.contract_platforms import Complete

PREDICATES = {
    PlatformEnum.CUDA: {"is_cuda", "is_cuda_alike"},
    PlatformEnum.ROCM: {"is_rocm", "is_cuda_alike"},
    PlatformEnum.TPU: {"is_tpu", "uses_host_device_handling"},
    PlatformEnum.XPU: {"is_xpu"},
    PlatformEnum.CPU: {"is_cpu"},
    PlatformEnum.OOT: {"is_out_of_tree"},
    PlatformEnum.UNSPECIFIED: {"is_unspecified"},
}


@pytest.mark.parametrize("kind", PlatformEnum, ids=lambda kind: kind.name)
def test_each_kind_answers_its_own_predicates_and_no_other(kind: PlatformEnum) -> None:
    """A platform is of one kind; CUDA and ROCm are alike, and a TPU leaves its device to the host."""

    class Kind(Complete):
        _enum = kind

    every = set().union(*PREDICATES.values())
    assert {name for name in every if getattr(Kind(), name)()} == PREDICATES[kind]
    assert not Kind().is_zen_cpu()


def test_defaults_of_attributes() -> None:
    """What a platform gets that sets only the mandatory ones."""
    assert {
        name: getattr(Complete, name)
        for name in (
            "dispatch_key",
            "ray_device_key",
            "ray_noset_device_env_vars",
            "simple_compile_backend",
            "dist_backend",
            "supported_quantization",
            "additional_env_vars",
        )
    } == {
        "dispatch_key": "CPU",
        "ray_device_key": "",
        "ray_noset_device_env_vars": [],
        "simple_compile_backend": "inductor",
        "dist_backend": "",
        "supported_quantization": [],
        "additional_env_vars": [],
    }


@pytest.mark.parametrize(
    ("machine", "architecture"),
    [
        ("x86_64", CpuArchEnum.X86),
        ("AMD64", CpuArchEnum.X86),
        ("i686", CpuArchEnum.X86),
        ("aarch64", CpuArchEnum.ARM),
        ("arm64", CpuArchEnum.ARM),
        ("armv7l", CpuArchEnum.ARM),
        ("ppc64le", CpuArchEnum.POWERPC),
        ("s390x", CpuArchEnum.S390X),
        ("riscv64", CpuArchEnum.RISCV),
        ("loongarch64", CpuArchEnum.OTHER),
        ("", CpuArchEnum.UNKNOWN),
    ],
)
def test_the_architecture_follows_from_the_machine_name(
    monkeypatch: pytest.MonkeyPatch, machine: str, architecture: CpuArchEnum
) -> None:
    """Case does not matter, and a name that nobody knows is told from no name at all."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert Complete.get_cpu_architecture() is architecture
