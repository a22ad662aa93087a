"""Stand-ins for `torch.cuda` and `torch.xpu`: recorded devices, and a note of every context that is created."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import torch

MIB = 1024 * 1024


@attrs.define
class FakeRuntime:
    """What the patched functions of one test share.

    Args:
        devices: what `get_device_properties` answers, by visible index.
        contexts: names of the calls that would have created a device context.
        current: the index that was set last.
        seeds: what was seeded.
    """

    devices: list[Any]
    contexts: list[str] = attrs.field(factory=list)
    current: int | None = None
    seeds: list[int] = attrs.field(factory=list)


def install(
    monkeypatch: pytest.MonkeyPatch, kind: str, devices: Sequence[Any], *, hip: str | None = None
) -> FakeRuntime:
    """Patch `torch.cuda` or `torch.xpu` so that it has these devices.

    Args:
        monkeypatch: undoes it after the test.
        kind: `cuda` or `xpu`.
        devices: properties, by visible index; each with a `free` of its own.
        hip: the HIP version of a torch for ROCm; None for a torch for CUDA.
    """
    made = FakeRuntime(list(devices))
    module = getattr(torch, kind)

    def needs_context(name: str, answer: Any) -> Any:
        def call(*args: Any) -> Any:
            made.contexts.append(name)
            return answer(*args)

        return call

    def set_device(device: torch.device) -> None:
        made.current = device.index

    patches = {
        "is_available": lambda: bool(made.devices),
        "is_initialized": lambda: bool(made.contexts),
        "device_count": lambda: len(made.devices),
        "get_device_properties": needs_context("get_device_properties", lambda i: made.devices[i]),
        "get_device_capability": needs_context("get_device_capability", lambda i: made.devices[i].capability),
        "mem_get_info": needs_context(
            "mem_get_info", lambda i: (made.devices[i].free, made.devices[i].total_memory)
        ),
        "current_device": lambda: made.current or 0,
        "set_device": needs_context("set_device", set_device),
        "manual_seed_all": made.seeds.append,
        "graph_pool_handle": lambda: (1, len(made.contexts)),
    }
    for name, patch in patches.items():
        monkeypatch.setattr(module, name, patch, raising=False)
    monkeypatch.setattr(torch.version, "hip", hip)
    return made


def orin() -> SimpleNamespace:
    """A Jetson AGX Orin with 64 GB, as its torch reports it: no NVML, memory shared with the host."""
    return SimpleNamespace(
        name="Orin",
        total_memory=62841 * MIB,
        free=50000 * MIB,
        multi_processor_count=16,
        capability=(8, 7),
        is_integrated=1,
        uuid="ddccf2d5-1a2b-5c3d-8e4f-001122334455",
    )


def h100() -> SimpleNamespace:
    """An H100 80GB HBM3, as torch reports it."""
    return SimpleNamespace(
        name="NVIDIA H100 80GB HBM3",
        total_memory=81089 * MIB,
        free=80000 * MIB,
        multi_processor_count=132,
        capability=(9, 0),
        is_integrated=0,
        uuid="3f5c1f6e-6f0a-4c8c-9d7b-0a1b2c3d4e5f",
        pci_domain_id=0,
        pci_bus_id=0x19,
        pci_device_id=0,
    )


def mi300x() -> SimpleNamespace:
    """An MI300X, as a HIP torch reports it."""
    return SimpleNamespace(
        name="AMD Instinct MI300X",
        total_memory=196592 * MIB,
        free=190000 * MIB,
        multi_processor_count=304,
        capability=(9, 4),
        gcnArchName="gfx942:sramecc+:xnack-",
        uuid="74ff74a1-0000-1000-80f1-3b1d2c4e5f60",
    )


def max_1550() -> SimpleNamespace:
    """One tile of a Data Center GPU Max 1550."""
    return SimpleNamespace(
        name="Intel(R) Data Center GPU Max 1550",
        total_memory=65520 * MIB,
        free=60000 * MIB,
        max_compute_units=512,
        uuid="868000d5-0000-0000-1800-000000000000",
    )


def arc_a770() -> SimpleNamespace:
    """An Arc A770 of the 16 GB kind, with a torch that tells no UUID."""
    return SimpleNamespace(
        name="Intel(R) Arc(TM) A770 Graphics",
        total_memory=15473 * MIB,
        free=15000 * MIB,
        max_compute_units=512,
    )
