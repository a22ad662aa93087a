"""Facts of `platforms.components.device_memory`: on the host, and on a recorded accelerator."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from platform_abc.errors import NotSupported
from platforms.components import device_memory

GIB = 1024**3


def test_on_an_accelerator_the_peak_of_torchs_allocator_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was held before the step is not the step's, and pending work is waited for."""
    calls: list[str] = []
    held = {"now": 5 * GIB, "peak": 9 * GIB}

    def step() -> None:
        calls.append("step")
        held["peak"] = 7 * GIB

    fake = SimpleNamespace(
        synchronize=lambda _: calls.append("wait"),
        reset_peak_memory_stats=lambda _: calls.append("reset"),
        memory_allocated=lambda _: held["now"],
        max_memory_allocated=lambda _: held["peak"],
    )
    monkeypatch.setattr(torch, "xpu", fake)
    assert device_memory.bytes_taken_by(step, torch.device("xpu:0")) == 2 * GIB
    assert calls == ["wait", "reset", "step", "wait"]


def test_pooled_memory_of_linked_devices_does_not_count() -> None:
    """The total is the one device's own, whatever the runtime says of free memory."""
    platform: Any = SimpleNamespace(
        get_device_total_memory=lambda visible: 32 * GIB + visible,
        has_runtime=lambda name: name == "mem_get_info",
        mem_get_info=lambda device: (30 * GIB, 192 * GIB),
    )
    assert device_memory.total_and_used(platform, 2) == (32 * GIB + 2, 32 * GIB + 2)


def test_without_a_runtime_query_the_platform_is_asked() -> None:
    """Usage is then the platform's own."""
    platform: Any = SimpleNamespace(
        get_device_total_memory=lambda visible: 8 * GIB,
        has_runtime=lambda name: False,
        get_current_memory_usage=lambda device: float(3 * GIB),
    )
    assert device_memory.total_and_used(platform, 0) == (8 * GIB, 3 * GIB)


def test_a_platform_that_tells_no_usage_has_all_of_its_memory_free() -> None:
    """Declining `get_current_memory_usage` is a conforming answer."""

    def declines(device: object) -> float:
        raise NotSupported("get_current_memory_usage", "Chip", "ask nobody")

    platform: Any = SimpleNamespace(
        get_device_total_memory=lambda visible: 8 * GIB,
        has_runtime=lambda name: False,
        get_current_memory_usage=declines,
    )
    assert device_memory.total_and_used(platform, 0) == (8 * GIB, 0)


def answering(**answers: Any) -> Any:
    """Make a platform whose memory hooks answer these; `mem_get_info` is there if it is among them."""
    given = {"get_device_total_memory": 8 * GIB, "get_current_memory_usage": 0.0, **answers}
    hooks = {name: lambda _, answer=answer: answer for name, answer in given.items()}
    return SimpleNamespace(**hooks, has_runtime=lambda name: name in given)


@pytest.mark.parametrize(
    ("member", "answer"),
    [
        ("get_device_total_memory", None),
        ("get_device_total_memory", "8 GiB"),
        ("get_device_total_memory", True),
        ("get_current_memory_usage", None),
        ("get_current_memory_usage", float("nan")),
        ("get_current_memory_usage", -1.0),
        ("mem_get_info", None),
        ("mem_get_info", (1, 2, 3)),
        ("mem_get_info", (None, 8 * GIB)),
    ],
)
def test_a_hook_that_answers_no_bytes_is_named(member: str, answer: object) -> None:
    """None and the like end in an error that says which hook of which platform to repair."""
    with pytest.raises(TypeError, match=rf"^{member} of SimpleNamespace answered .*; expected .*bytes"):
        device_memory.total_and_used(answering(**{member: answer}), 0)


def test_an_earlier_peak_of_the_process_does_not_hide_the_steps() -> None:
    """Loading a model takes more than a step; the step is still measured."""
    if not (device_memory.PROC / "clear_refs").exists():
        pytest.skip("this kernel does not forget peaks")
    host = torch.device("cpu")
    device_memory.bytes_taken_by(lambda: torch.ones(300 << 20, dtype=torch.uint8), host)
    taken = device_memory.bytes_taken_by(lambda: torch.ones(100 << 20, dtype=torch.uint8), host)
    assert 90 << 20 < taken < 200 << 20


def test_without_proc_the_peak_since_the_start_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Systems that cannot forget a peak answer from `getrusage`, which never goes down."""
    monkeypatch.setattr(device_memory, "PROC", tmp_path / "absent")
    assert device_memory.bytes_taken_by(lambda: None, torch.device("cpu")) == 0
