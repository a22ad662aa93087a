"""Facts about traces of what the engine asks of a platform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from platform_abc.config import EngineConfig
from platform_abc.hooks import trace as tracing
from platform_abc.hooks.trace import Trace, record, step
from platform_abc.timeline import Process

Use = Callable[..., Any]


@pytest.mark.torch
def test_reads_and_calls_are_noted_but_not_what_hooks_ask_themselves(use_platform: Use) -> None:
    """Attributes, properties and methods once each; a hook's own questions are its own."""
    platform = use_platform()
    kind, before = type(platform), vars(platform).copy()
    trace = Trace(Process.WORKER, 1)
    with record(trace, platform):
        step("general plugins")
        assert platform.device_type == "cpu"
        assert platform.is_cpu()
        assert platform.supported_dtypes
        config = EngineConfig()
        platform.check_and_update_config(config)
        platform.is_cuda_alike()
        assert type(platform).__name__ == kind.__name__
        assert isinstance(platform, kind)
    assert [seen.name for seen in trace.seen] == [
        "general plugins",
        "device_type",
        "is_cpu",
        "supported_dtypes",
        "check_and_update_config",
        "is_cuda_alike",
    ]
    assert {(seen.process, seen.instance) for seen in trace.seen} == {(Process.WORKER, 1)}
    assert type(platform) is kind
    assert vars(platform) == before
    assert tracing.active is None
    step("nothing")
    assert len(trace.seen) == 6


def test_a_platform_of_any_make_can_be_traced() -> None:
    """With slots alone, or with attribute access of its own."""

    class Slotted:
        __slots__ = ("held",)

        def is_tpu(self) -> bool:
            return False

    class Own(Slotted):
        def __getattribute__(self, name: str) -> Any:
            return "mine" if name == "device_type" else super().__getattribute__(name)

    for kind in (Slotted, Own):
        platform: Any = kind()
        platform.held = 5
        with record(Trace(Process.WORKER), platform) as trace:
            assert platform.is_tpu() is False
            assert platform.held == 5
            assert kind is Slotted or platform.device_type == "mine"
        assert trace.seen[0].name == "is_tpu"
        assert type(platform) is kind


def test_a_traced_platform_answers_unknown_names_and_raises_as_before(use_platform: Use) -> None:
    """The torch fallback and exceptions pass through, and a trace ends also then."""

    def fails(_cls: type, config: object) -> None:
        raise KeyError("seeded")

    platform = use_platform(check_and_update_config=fails)
    kind = type(platform)
    trace = Trace(Process.WORKER)
    with pytest.raises(KeyError), record(trace, platform):
        assert platform.no_such_name is None
        platform.check_and_update_config(EngineConfig())
    assert trace.depth == 0
    assert type(platform) is kind
