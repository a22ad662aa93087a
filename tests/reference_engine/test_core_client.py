"""Facts about the way from the front end to its engine core: threads share it, and all learn of its end."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from platform_abc.hooks.watch import EngineFailed, HookHung
from platform_abc.requests import SamplingParams
from reference_engine import core_client
from reference_engine.args import EngineArgs
from reference_engine.core_client import InProcessCore, ProcessCore, own_copy
from reference_engine.engine import Engine
from reference_engine.input_processor import Request
from reference_engine.scheduler import Result
from tests.reference_engine.test_failures import in_thread

Use = Callable[..., Any]


@pytest.fixture(autouse=True)
def _kernels_again() -> Iterator[None]:
    """Let each engine of this process import its custom ops, as the first one of a process does."""
    sys.modules.pop("reference_model.custom_ops", None)
    yield


class Core:
    """An engine core that ends each request after as many steps as it wants tokens."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.left: dict[str, int] = {}
        self.steps = 0
        self.fails_at = fails_at
        self.threads: set[int] = set()
        self.aborted: list[str] = []
        self.scheduler = self
        self.closed = False

    @property
    def busy(self) -> bool:
        return bool(self.left)

    def add(self, requests: Sequence[Request]) -> list[Result]:
        self.left |= {one.request_id: one.max_tokens for one in requests}
        return []

    def abort(self, names: Sequence[str]) -> None:
        self.aborted += names
        for name in names:
            self.left.pop(name, None)

    def step(self) -> list[Result]:
        self.threads.add(threading.get_ident())
        self.steps += 1
        time.sleep(0.005)
        if self.steps == self.fails_at:
            raise KeyError("seeded")
        for name in self.left:
            self.left[name] -= 1
        done = [name for name, left in self.left.items() if left == 0]
        for name in done:
            del self.left[name]
        return [Result(request_id=name, tokens=(1,)) for name in done]

    def close(self) -> None:
        self.closed = True


def request(name: str, most: int) -> Request:
    return Request(request_id=name, prompt=(1,), max_tokens=most)


def client_of(core: Core) -> InProcessCore:
    whole: Any = core
    return InProcessCore(whole)


def test_requests_of_several_threads_run_in_the_same_steps() -> None:
    """Ten threads with twenty steps each take little more than twenty together."""
    core = Core()
    client = client_of(core)
    threads = [in_thread(lambda i=i: client.run([request(str(i), 20)])) for i in range(10)]
    for thread, raised in threads:
        thread.join(20)
        assert raised == []
    assert core.steps < 60


def test_a_step_that_raises_ends_the_wait_of_all() -> None:
    """The thread that ran it gets the exception itself, the others one that tells it; so do later ones."""
    client = client_of(Core(fails_at=10))
    threads = [in_thread(lambda i=i: client.run([request(str(i), 50)])) for i in range(4)]
    for thread, _ in threads:
        thread.join(20)
    errors = [raised[0] for _, raised in threads]
    assert sorted(type(error).__name__ for error in errors) == ["EngineFailed"] * 3 + ["KeyError"]
    assert all("seeded" in str(error) for error in errors)
    with pytest.raises(EngineFailed, match="KeyError: 'seeded'"):
        client.run([request("late", 1)])


def test_an_interrupt_forgets_the_requests_of_its_thread_alone() -> None:
    """The next one steps on for the others, and tells the core which are not wanted any more."""
    core = Core()
    client = client_of(core)
    fine = core.step

    def interrupted() -> list[Result]:
        core.step = fine  # type: ignore[method-assign]
        raise KeyboardInterrupt

    core.step = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        client.run([request("mine", 5)])
    assert [one.request_id for one in client.run([request("other", 2)])] == ["other"]
    assert core.aborted == ["mine"]


class Echo:
    """A child that ends each request as soon as it comes."""

    def __init__(self) -> None:
        self.connection, self._theirs = multiprocessing.Pipe()

    def send(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "add":
            done = [Result(request_id=one.request_id, tokens=(1,)) for one in args[0]]
            self._theirs.send((True, ("done", done)))

    def take(self, _name: str) -> Any:
        return self.connection.recv()[1]

    def refuse_silence(self) -> None:
        """Never: it answers."""


def process_client(_core: Core) -> ProcessCore:
    child: Any = Echo()
    return ProcessCore(child)


@pytest.mark.parametrize("client_of_core", [client_of, process_client])
def test_a_progress_callback_is_its_own_threads_affair(client_of_core: Callable[[Core], Any]) -> None:
    """It may use the engine; what it raises is logged, or ends its own thread, and nobody else's requests."""
    client = client_of_core(Core())
    told: list[str] = []
    threads: set[int] = set()

    def asks_more(result: Result) -> None:
        threads.add(threading.get_ident())
        told.append(result.request_id)
        if result.request_id == "first":
            client.run([request("more", 2)], asks_more)

    def fails(_result: Result) -> None:
        raise KeyError("mine")

    def leaves(_result: Result) -> None:
        sys.exit(3)

    asking = in_thread(lambda: client.run([request("first", 2), request("second", 9)], asks_more))
    failing = in_thread(lambda: client.run([request("fails", 2)], fails))
    leaving = in_thread(lambda: client.run([request("leaves", 2)], leaves))
    for thread, _ in (asking, failing, leaving):
        thread.join(20)
        assert not thread.is_alive()
    assert [[type(one) for one in raised] for _, raised in (asking, failing, leaving)] == [
        [],
        [],
        [SystemExit],
    ]
    assert sorted(told) == ["first", "more", "second"]
    assert threads == {asking[0].ident}
    assert [one.request_id for one in client.run([request("last", 1)])] == ["last"]


def test_a_refused_request_may_have_a_callback_that_raises(use_platform: Use) -> None:
    """It does not end the engine either."""

    def fails(result: Result) -> None:
        raise KeyError(result.error)

    use_platform()
    with Engine(EngineArgs(dtype="float32")) as engine:
        refused, fine = engine.generate([[-1], [1]], SamplingParams(max_tokens=2), progress=fails)
        assert "token_ids = [-1]" in refused.error
        assert len(fine.tokens) == len(engine.generate([[1]], SamplingParams(max_tokens=2))[0].tokens) == 2


def test_a_step_that_a_failure_elsewhere_has_cut_short_tells_that_failure() -> None:
    """Not what the step ran into, once the worker was taken away from it."""
    core = Core()
    client = client_of(core)

    def cut_short() -> list[Result]:
        client.fail(EngineFailed("hook a of P hangs"))
        raise KeyError("layers.0")

    core.step = cut_short  # type: ignore[method-assign]
    with pytest.raises(EngineFailed, match="^hook a of P hangs$"):
        client.run([request("one", 5)])


def test_closing_waits_for_the_step_and_tells_who_waits(use_platform: Use) -> None:
    """The worker is not taken away from a step that runs."""
    use_platform()
    engine = Engine(EngineArgs(dtype="float32", max_model_len=1000))
    thread, raised = in_thread(lambda: engine.generate([[1]], SamplingParams(max_tokens=990)))
    time.sleep(0.3)
    engine.close()
    thread.join(10)
    assert str(raised[0]) == "the engine was closed"


def test_each_thread_gets_an_error_of_its_own() -> None:
    """Of the same kind where it is the engine's; any other is told with its notes."""
    hung = HookHung("hook a")
    copied = own_copy(hung)
    assert copied is not hung
    assert type(copied) is HookHung
    noted = KeyError("x")
    noted.add_note("raised in hook a")
    assert str(own_copy(noted)) == "the engine ended: KeyError: 'x' (raised in hook a)"


def test_sys_exit_in_a_hook_is_a_failure_of_the_engine(use_platform: Use) -> None:
    """Not the end of the user's interpreter; in `validate_request` it refuses one request."""

    def leaves(_cls: type, *args: Any) -> None:
        raise SystemExit(3)

    use_platform(check_and_update_config=leaves)
    with pytest.raises(
        EngineFailed,
        match=r"hook check_and_update_config of ChangedPlatform raised SystemExit: 3, in the front end",
    ):
        Engine(EngineArgs(dtype="float32"))
    use_platform(validate_request=leaves)
    with Engine(EngineArgs(dtype="float32")) as engine:
        (result,) = engine.generate([[1]])
    assert "validate_request of ChangedPlatform raised SystemExit: 3" in result.error


class Nameless:
    """What cannot be shown."""

    def __repr__(self) -> str:
        raise OSError("gone")


class Unreadable(list[int]):
    """A prompt that cannot be read."""

    def __iter__(self) -> Iterator[int]:
        raise OSError("gone")


def test_no_prompt_ends_the_engine(use_platform: Use) -> None:
    """Whatever it is, the others are answered."""
    use_platform()
    bad: list[Any] = [
        None,
        "text",
        5,
        [None],
        [1.5],
        [True],
        [-1],
        [2**80],
        Unreadable([1]),
        object(),
        {1: 2},
        Nameless(),
        [Nameless()],
    ]
    with Engine(EngineArgs(dtype="float32")) as engine:
        results = engine.generate([[1], *bad, [2]], SamplingParams(max_tokens=2))
        wrong: Any = [SamplingParams(max_tokens=1), None, SamplingParams(n=2)]
        mixed = engine.generate([[1], [2], [3]], wrong)
    assert [bool(one.tokens) for one in results] == [True, *[False] * len(bad), True]
    assert all(one.error for one in results[1:-1])
    assert [bool(one.tokens) for one in mixed] == [True, False, False]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_hook_timeout_is_a_time(use_platform: Use, seconds: float) -> None:
    """Refused before anything starts."""
    use_platform()
    with pytest.raises(ValueError, match="hook_timeout = .*: expected a number of seconds above 0"):
        Engine(EngineArgs(hook_timeout=seconds))


class Sleepy:
    """A child that answers nothing until it is awake, and everything then."""

    def __init__(self) -> None:
        self.connection, self._theirs = multiprocessing.Pipe()
        self._asked: list[Any] = []
        self.awake = False

    def send(self, _name: str, args: tuple[Any, ...]) -> None:
        self._asked += args
        while self.awake and self._asked:
            number = self._asked.pop(0)
            self._theirs.send((True, ("answer", number, [f"answer {number}"])))

    def take(self, _name: str) -> Any:
        return self.connection.recv()[1]

    def refuse_silence(self) -> None:
        """Never: it may still answer."""


def test_an_engine_core_that_does_not_answer_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names the process and the question; the late answer is not taken for that to another."""
    child = Sleepy()
    client = ProcessCore(child)  # type: ignore[arg-type]
    monkeypatch.setattr(core_client, "CALL_SECONDS", 0.05)
    with pytest.raises(
        EngineFailed, match=r"engine core process did not answer 'check_health' within 0\.05 s"
    ):
        client.check_health()
    monkeypatch.setattr(core_client, "CALL_SECONDS", 20)
    child.awake = True
    assert client.traces() == ["answer 1"]  # type: ignore[comparison-overlap]
    child.connection.close()
