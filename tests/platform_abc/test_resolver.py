"""One object a process, whichever thread reads first; no read hangs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from platform_abc.candidates import Detector
from platform_abc.errors import ResolutionError
from platform_abc.resolution import ResolutionSpec
from platform_abc.resolver import Resolver
from tests.platform_abc.fake_distributions import STRUCTURAL_PLATFORM


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module `rv_platforms` with the platform class One."""
    made = ModuleType("rv_platforms")
    exec(STRUCTURAL_PLATFORM.format(name="One"), vars(made))
    monkeypatch.setitem(sys.modules, "rv_platforms", made)
    for name in ("PLATFORM_ABC_TARGET_DEVICE", "PLATFORM_ABC_RESOLUTION_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    yield made


def resolver(detector: Detector, timeout: float = 20) -> Resolver:
    spec = ResolutionSpec(
        engine="platform-abc",
        builtins={"a": detector},
        unspecified="rv_platforms.One",
        platform_group="rv.none",
    )
    return Resolver(lambda: spec, lambda: timeout)


def run(*functions: Callable[[], object]) -> list[object]:
    """Run functions in threads that start together; return results or errors."""
    results: list[object] = [None] * len(functions)
    barrier = threading.Barrier(len(functions))

    def call(index: int, function: Callable[[], object]) -> None:
        barrier.wait()
        try:
            results[index] = function()
        except Exception as error:
            results[index] = error

    threads = [
        threading.Thread(target=call, args=each, name=f"reader-{each[0]}") for each in enumerate(functions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


def test_threads_that_read_first_at_once_get_the_same_object() -> None:
    """And the detector is asked as for one: twice in all, being the winner."""
    asked: list[int] = []

    def slow() -> str | None:
        asked.append(1)
        time.sleep(0.05)
        return "rv_platforms.One"

    under_test = resolver(slow)
    objects = run(*[under_test.platform] * 8)
    assert len({id(each) for each in objects}) == 1
    assert type(objects[0]).__name__ == "One"
    assert len(asked) == 2


def test_a_detector_that_reads_the_platform_gets_a_clear_error() -> None:
    """It says who reads what while what happens; resolution goes on without that detector."""
    told: list[str] = []

    def detector() -> str | None:
        try:
            under_test.platform()
        except ResolutionError as error:
            told.append(str(error))
            raise
        return None

    under_test = resolver(detector)
    report = under_test.report()
    assert "read while it is being resolved (now asking detector a)" in told[0]
    assert report.detectors[0].state == "failed"


def test_a_platform_module_that_reads_the_platform_gets_a_clear_error(module: ModuleType) -> None:
    """That one cannot be left out, so resolution fails, with the reason."""
    under_test = resolver(lambda: "rv_platforms.One")
    module.One.__init__ = lambda self: under_test.platform()
    with pytest.raises(
        ResolutionError, match="read while it is being resolved .now making platform rv_platforms.One"
    ):
        under_test.platform()


def test_a_thread_that_waits_too_long_gets_an_error_that_names_both() -> None:
    """With what the other one does, and where."""
    go_on, started = threading.Event(), threading.Event()

    def stuck() -> str | None:
        started.set()
        go_on.wait(20)
        return None

    under_test = resolver(stuck, timeout=0.2)
    holder = threading.Thread(target=under_test.platform, name="the-holder")
    holder.start()
    assert started.wait(10)
    (error,) = run(under_test.platform)
    go_on.set()
    holder.join()
    assert isinstance(error, ResolutionError)
    for part in (
        "'reader-0'",
        "'the-holder'",
        "waited 0.2 s",
        "asking detector a",
        "PLATFORM_ABC_RESOLUTION_TIMEOUT",
    ):
        assert part in str(error)
    assert "threading.py:" in str(error)  # where the holder stands


def test_a_holder_that_imports_is_shown_where_it_stands_in_a_file() -> None:
    """Not inside the import machinery, where every import stands."""
    started, blocker = threading.Event(), threading.Lock()
    blocker.acquire()
    frozen = compile("started.set(); acquire(timeout=20)", "<frozen importlib._bootstrap>", "exec")

    def importing() -> str | None:
        exec(frozen, {"started": started, "acquire": blocker.acquire})
        return None

    under_test = resolver(importing, timeout=0.2)
    holder = threading.Thread(target=under_test.platform)
    holder.start()
    assert started.wait(10)
    (error,) = run(under_test.platform)
    blocker.release()
    holder.join()
    assert "test_resolver.py:" in str(error)
    assert "<frozen" not in str(error)


def test_a_detector_whose_own_thread_reads_the_platform_does_not_hang() -> None:
    """It waits for a thread that waits for it; the inner one is told."""
    inner: list[object] = []

    def detector() -> str | None:
        inner.extend(run(under_test.platform))
        return "rv_platforms.One"

    under_test = resolver(detector, timeout=0.2)
    under_test.platform()
    assert all(isinstance(each, ResolutionError) for each in inner)


def test_the_time_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is no time is an error that names the variable."""
    monkeypatch.setenv("PLATFORM_ABC_RESOLUTION_TIMEOUT", "soon")
    spec = ResolutionSpec(engine="x", builtins={}, unspecified="rv_platforms.One")
    with pytest.raises(ResolutionError, match="PLATFORM_ABC_RESOLUTION_TIMEOUT='soon'"):
        Resolver(lambda: spec).platform()


def test_after_a_failure_the_next_read_tries_again() -> None:
    """A failure is not kept, so a plugin that was imported too early gets its turn."""
    answers = ["nodots", "rv_platforms.One", "rv_platforms.One"]
    under_test = resolver(lambda: answers[0] if len(answers) == 3 else "rv_platforms.One")
    with pytest.raises(ResolutionError):
        under_test.platform()
    answers.pop()
    assert type(under_test.platform()).__name__ == "One"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ResolutionError])
def test_a_resolution_that_is_cut_off_leaves_nothing_locked(
    module: ModuleType, error: type[BaseException]
) -> None:
    """The same thread and another one can resolve afterwards, at once."""
    failing = [error()]

    def made(self: object) -> None:
        if failing:
            raise failing.pop()

    module.One.__init__ = made
    under_test = resolver(lambda: "rv_platforms.One", timeout=5)
    with pytest.raises(error):
        under_test.platform()
    (other,) = run(under_test.platform)
    assert type(other).__name__ == "One"
    assert under_test.platform() is other


def test_reset_resolves_again() -> None:
    """For tests: another object, by the same rules."""
    under_test = resolver(lambda: "rv_platforms.One")
    first = under_test.platform()
    assert under_test.platform() is first
    under_test.reset()
    assert under_test.platform() is not first


def test_the_report_keeps_the_stack_of_the_first_read() -> None:
    """Outermost first; neither our own frames nor the import machinery's."""

    def the_first_reader() -> None:
        under_test.platform()

    under_test = resolver(lambda: "rv_platforms.One")
    the_first_reader()
    frames = under_test.report().first_read
    assert frames[-1].endswith("in the_first_reader")
    assert not [
        frame
        for frame in frames
        if "<frozen" in frame or ("/platform_abc/resol" in frame.split(":")[0] and "tests" not in frame)
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_another_thread_resolves_can_resolve() -> None:
    """The holder does not exist in the child, so nothing waits for it."""
    go_on, started = threading.Event(), threading.Event()
    parent = os.getpid()

    def stuck() -> str | None:
        if os.getpid() == parent:
            started.set()
            go_on.wait(20)
        return "rv_platforms.One"

    under_test = resolver(stuck, timeout=5)
    holder = threading.Thread(target=under_test.platform)
    holder.start()
    assert started.wait(10)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if type(under_test.platform()).__name__ == "One" else 3)
        except BaseException:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    go_on.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0
