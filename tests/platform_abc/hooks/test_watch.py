"""Facts about the watch over hooks: which one hangs is found without a word from whoever called it."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import platforms
from platform_abc.components.worker import WorkerBase
from platform_abc.config import EngineConfig
from platform_abc.errors import ConfigError
from platform_abc.hooks.watch import (
    EngineFailed,
    HookHung,
    HookWatch,
    member_codes,
    who_raised,
)
from tests.platform_abc.concrete import concrete

pytestmark = pytest.mark.usefixtures("ctrl_c_is_pythons_own")

Use = Callable[..., Any]

_needs_no_trace = pytest.mark.skipif(
    sys.version_info < (3, 12) and sys.gettrace() is not None,
    reason="CPython 3.11 cannot bear it where functions are traced, as for coverage",
)


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def watch(seconds: float, told: list[str], *, interrupts: bool = False) -> HookWatch:
    return HookWatch("engine core", seconds, platforms.resolved_platform, told.append, interrupts=interrupts)


def test_a_hook_that_goes_on_is_told_once_with_its_stack(use_platform: Use) -> None:
    """The outermost hook counts: what it asks of its own platform is its own business."""

    def slow(cls: type, *args: Any) -> None:
        cls.is_pin_memory_available()  # type: ignore[attr-defined]

    def inner(_cls: type) -> bool:
        spin(1.0)
        return True

    platform, told = use_platform(log_warnings=slow, is_pin_memory_available=inner), list[str]()
    mine = watch(0.3, told)
    with pytest.raises(HookHung), mine.watching():
        platform.log_warnings()
    mine.close()
    (text,) = told
    assert text.startswith(
        "the engine core process hangs: hook log_warnings of ChangedPlatform did not return within 0.3 s"
    )
    assert "in inner" in text


def test_many_short_calls_are_no_hang(use_platform: Use) -> None:
    """Each call counts for itself, however long they take together."""
    platform, told = use_platform(log_warnings=lambda _cls: spin(0.1)), list[str]()
    mine = watch(0.5, told)
    with mine.watching():
        for _ in range(10):
            platform.log_warnings()
    mine.close()
    assert told == []


def test_a_thread_that_is_not_watched_may_take_its_time(use_platform: Use) -> None:
    """A vendor's own threads call what they like."""
    platform, told = use_platform(log_warnings=lambda _cls: spin(0.8)), list[str]()
    mine = watch(0.2, told)
    platform.log_warnings()
    mine.close()
    assert told == []


@pytest.mark.parametrize("wait", [time.sleep, spin])
def test_the_main_thread_is_interrupted_and_keeps_its_handler(
    use_platform: Use, wait: Callable[[float], None]
) -> None:
    """Waiting or computing; a real Ctrl-C later is a KeyboardInterrupt again."""
    platform, told = use_platform(log_warnings=lambda _cls: wait(30)), list[str]()
    mine = watch(0.3, told, interrupts=True)
    start = time.monotonic()
    with pytest.raises(HookHung, match="log_warnings"), mine.watching():
        platform.log_warnings()
    assert time.monotonic() - start < 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), mine.watching():
        signal.raise_signal(signal.SIGINT)
    mine.close()


def test_a_hook_that_swallows_the_interrupt_is_told_all_the_same(use_platform: Use) -> None:
    """It may end by itself in the end; its answer is not used."""

    def stubborn(_cls: type) -> None:
        for _ in range(3):
            with contextlib.suppress(KeyboardInterrupt):  # the fault
                spin(0.6)

    platform, told = use_platform(log_warnings=stubborn), list[str]()
    mine = watch(0.2, told, interrupts=True)
    with pytest.raises(HookHung, match="log_warnings"), mine.watching():
        platform.log_warnings()
    mine.close()
    assert len(told) == 1


@_needs_no_trace
def test_with_a_handler_of_the_user_the_interrupt_comes_between_steps(use_platform: Use) -> None:
    """Their handler is not called, and computing is interrupted still."""
    called: list[int] = []
    before = signal.signal(signal.SIGINT, lambda *_: called.append(1))
    try:
        platform, told = use_platform(log_warnings=lambda _cls: spin(30)), list[str]()
        mine = watch(0.2, told, interrupts=True)
        with pytest.raises(HookHung, match="log_warnings"), mine.watching():
            platform.log_warnings()
        mine.close()
    finally:
        signal.signal(signal.SIGINT, before)
    assert called == []


@_needs_no_trace
def test_other_threads_are_interrupted_between_steps(use_platform: Use) -> None:
    """A hook that computes for ever in a user's thread ends there."""
    platform, told, raised = use_platform(log_warnings=lambda _cls: spin(30)), list[str](), list[Exception]()
    mine = watch(0.2, told, interrupts=True)

    def run() -> None:
        try:
            with mine.watching():
                platform.log_warnings()
        except HookHung as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(5)
    mine.close()
    assert "log_warnings" in str(raised[0])


def test_a_call_past_its_limit_says_where_it_is() -> None:
    """Hook or not."""
    told: list[str] = []
    mine = watch(10, told)
    with pytest.raises(HookHung), mine.watching(), mine.limited(0.2):
        spin(0.8)
    mine.close()
    assert "no end within 0.2 s" in told[0]
    assert "in spin" in told[0]


def test_codes_of_wrapped_members_are_those_of_what_is_wrapped(use_platform: Use) -> None:
    """A wrapper that several members share says nothing; what it wraps does."""

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    def one(_cls: type) -> bool:
        return True

    def other(_cls: type) -> bool:
        return True

    shared = wrapped(one)
    platform = use_platform(use_all_gather=shared, supports_mx=wrapped(other))
    codes = member_codes(platform)
    assert codes[one.__code__] == "use_all_gather"
    assert codes[other.__code__] == "supports_mx"
    assert shared.__code__ not in codes


def test_the_hook_that_raised_is_found_in_the_traceback(use_platform: Use) -> None:
    """The outermost one; without one there is no name."""

    def fails(_cls: type) -> None:
        raise KeyError("seeded")

    platform = use_platform(log_warnings=fails)
    with pytest.raises(KeyError) as caught:
        platform.log_warnings()
    assert who_raised(caught.value, platform) == "hook log_warnings of ChangedPlatform"
    with pytest.raises(KeyError) as plain:
        {}["x"]
    assert who_raised(plain.value, platform) == ""


def test_a_hook_may_be_cached_or_partial(use_platform: Use) -> None:
    """Decorators of the standard library are no functions, and hold one."""

    def cached(_cls: type, _device_id: int = 0) -> str:
        return "name"

    def partial(_cls: type, _value: int) -> bool:
        return True

    platform = use_platform(get_device_name=functools.cache(cached))
    type(platform).use_all_gather = functools.partial(partial, 1, 2)
    type(platform).supports_mx = Endless()
    codes = member_codes(platform)
    assert codes[cached.__code__] == "get_device_name"
    assert codes[partial.__code__] == "use_all_gather"


class Endless:
    """Has every attribute that somebody asks for, as a mock has."""

    def __getattr__(self, name: str) -> Endless:
        return Endless()


class Vendor(concrete(WorkerBase)):  # type: ignore[misc]
    """A vendor's worker that gives up."""

    def check_health(self) -> None:
        raise self.error

    error: BaseException = RuntimeError("lost")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("lost"), "raised in check_health of Vendor"),
        (ConfigError("device_config = 1: expected 2"), ""),
        (SystemExit(3), "check_health of Vendor raised SystemExit: 3, in the engine core"),
    ],
)
def test_a_worker_that_raises_is_named(error: BaseException, text: str) -> None:
    """And cannot end the interpreter; what is the user's own mistake is not laid at its door."""
    worker = Vendor(EngineConfig())
    worker.error = error
    with pytest.raises((EngineFailed, type(error))) as caught, watch(5, []).naming():
        worker.check_health()
    told = (
        str(caught.value)
        if isinstance(caught.value, EngineFailed)
        else "".join(getattr(caught.value, "__notes__", ()))
    )
    assert told == text


def test_what_a_signal_handler_raises_is_no_workers_doing() -> None:
    """A program that leaves on SIGTERM leaves, wherever the signal finds it."""

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(0)

    class Interrupted(Vendor):
        def check_health(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit), watch(5, []).naming():
            Interrupted(EngineConfig()).check_health()
    finally:
        signal.signal(signal.SIGTERM, before)
