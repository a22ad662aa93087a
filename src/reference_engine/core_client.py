"""How the front end reaches its engine core: in this process, or in one of its own.

Several threads may wait for results at once. When the engine fails, each of them gets the error.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, as_completed
from typing import TYPE_CHECKING, Any, cast

from platform_abc.foreign import describe
from platform_abc.hooks.silence import POLL_SECONDS
from platform_abc.hooks.watch import EngineFailed
from reference_engine.processes.child import CALL_SECONDS, END_SECONDS, ProcessFailed

if TYPE_CHECKING:
    from platform_abc.hooks.trace import Moment
    from reference_engine.engine_core import EngineCore
    from reference_engine.input_processor import Request
    from reference_engine.processes.child import Child
    from reference_engine.scheduler import Result

logger = logging.getLogger(__name__)

Progress = Callable[["Result"], None]
"""Called with each result as it comes, in the thread that waits for it: it may raise, wait, and use the engine."""


class _Waiting:
    """The requests that somebody waits for, and the error that has ended them all."""

    def __init__(self) -> None:
        self._futures: dict[str, Future[Result]] = {}
        self._lock = threading.Lock()
        self.failure: BaseException | None = None

    def add(self, requests: Sequence[Request]) -> dict[str, Future[Result]]:
        """Make a future for each request.

        Args:
            requests: with names that no other has.

        Raises:
            EngineFailed: the engine has ended.
        """
        with self._lock:
            if self.failure is not None:
                raise own_copy(self.failure)
            new: dict[str, Future[Result]] = {request.request_id: Future() for request in requests}
            self._futures.update(new)
        return new

    def done(self, results: Sequence[Result]) -> None:
        """Hand results to those who wait; one that was aborted is dropped."""
        for result in results:
            with self._lock:
                future = self._futures.pop(result.request_id, None)
            if future is not None:
                future.set_result(result)

    def forget(self, names: Sequence[str]) -> None:
        """Drop requests that nobody waits for any more."""
        with self._lock:
            for name in names:
                self._futures.pop(name, None)

    def fail(self, error: BaseException) -> None:
        """End all with an error; the first one counts."""
        with self._lock:
            self.failure = self.failure or error
            left, self._futures = self._futures, {}
        for future in left.values():
            future.set_exception(own_copy(self.failure))


def tell(progress: Progress | None, result: Result) -> None:
    """Tell a result to who wants to know; an error of theirs is no reason to end an engine that others use."""
    try:
        if progress is not None:
            progress(result)
    except Exception:
        logger.warning("the progress callback failed for request %s", result.request_id, exc_info=True)


def own_copy(error: BaseException) -> EngineFailed:
    """Return an error of this thread's own, so that tracebacks of several do not mix."""
    if isinstance(error, EngineFailed):
        return type(error)(*error.args)
    notes = ", ".join(getattr(error, "__notes__", ()))
    made = EngineFailed(f"the engine ended: {describe(error)}{f' ({notes})' if notes else ''}")
    made.__cause__ = error
    return made


class InProcessCore:
    """The engine core in this process: those who wait take turns to run a step for all.

    Args:
        core: started.
    """

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._waiting = _Waiting()
        self._turn = threading.Condition()
        self._stepping = False
        self._new: list[Request] = []
        self._gone: list[str] = []

    def run(self, requests: Sequence[Request], progress: Progress | None = None) -> list[Result]:
        """Run requests to their end, together with those of other threads.

        Raises:
            EngineFailed: the engine ended in another thread; where it ends here, the exception itself passes.
        """
        futures = self._waiting.add(requests)
        left = dict(futures)
        with self._turn:
            self._new += requests
        try:
            while left:
                if self._take_turn(left.values()):
                    self._step()
                for name in [name for name, future in left.items() if future.done()]:
                    tell(progress, left.pop(name).result())
        except Exception as error:
            known = self._waiting.failure
            if known is not None:
                raise own_copy(known) from error  # a step without the worker, which another thread has ended
            self.fail(error)
            raise
        except BaseException:
            # Ctrl-C: the requests of other threads go on. A step that it has cut short is run again.
            self._waiting.forget(list(futures))
            with self._turn:
                self._gone += futures
            raise
        return [future.result() for future in futures.values()]

    def _take_turn(self, futures: Collection[Future[Result]]) -> bool:
        """Wait for one of these results or for the turn to run a step; say whether it is the turn."""
        with self._turn:
            while True:
                if self._waiting.failure is not None or any(future.done() for future in futures):
                    return False
                if not self._stepping:
                    self._stepping = True
                    return True
                self._turn.wait()

    def _step(self) -> None:
        try:
            with self._turn:
                new, gone, self._new, self._gone = self._new, self._gone, [], []
            self._waiting.done(self._core.add(new))
            self._core.scheduler.abort(gone)
            if self._core.busy:
                self._waiting.done(self._core.step())
        finally:
            with self._turn:
                self._stepping = False
                self._turn.notify_all()

    def traces(self) -> list[Moment]:
        """Return nothing: this process's own trace has it all."""
        return []

    def check_health(self) -> None:
        """Return at once if a step can run."""
        self._core.executor.check_health()

    def fail(self, error: BaseException) -> None:
        """Let everybody who waits, and who comes later, get this error."""
        self._waiting.fail(error)
        with self._turn:
            self._turn.notify_all()

    def close(self, *, failed: bool) -> None:
        """End the worker, once no step runs; after a failure nobody waits for that."""
        self.fail(EngineFailed("the engine was closed"))
        if not failed:
            with self._turn:
                self._turn.wait_for(lambda: not self._stepping, END_SECONDS)
        self._core.close()


class ProcessCore:
    """The engine core in a process of its own; a thread takes what it sends.

    Args:
        child: started.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self._waiting = _Waiting()
        self._answers: dict[int, Future[Any]] = {}
        self._numbers = itertools.count()
        self._sending = threading.Lock()
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="engine core's answers", daemon=True)
        self._reader.start()

    def run(self, requests: Sequence[Request], progress: Progress | None = None) -> list[Result]:
        """Run requests to their end, together with those of other threads.

        Raises:
            EngineFailed: the engine core or a worker raised, died or hung.
        """
        futures = self._waiting.add(requests)
        try:
            self._send("add", list(requests))
            for future in as_completed(futures.values()):
                tell(progress, future.result())
            return [future.result() for future in futures.values()]
        except EngineFailed:
            raise
        except BaseException:
            self._waiting.forget(list(futures))
            with contextlib.suppress(EngineFailed):
                self._send("abort", list(futures))
            raise

    def traces(self) -> list[Moment]:
        """Return what was noted in the engine core and in the workers."""
        return cast("list[Moment]", self._ask("trace"))

    def check_health(self) -> None:
        """Return at once if a step can run."""
        self._ask("check_health")

    def _ask(self, name: str) -> Any:
        number = next(self._numbers)
        future = self._answers[number] = Future[Any]()
        if self._waiting.failure is not None:
            raise own_copy(self._waiting.failure)
        self._send(name, number)
        try:
            return future.result(CALL_SECONDS)
        except TimeoutError as error:
            self._answers.pop(number, None)
            raise ProcessFailed(
                f"the engine core process did not answer {name!r} within {CALL_SECONDS:g} s"
            ) from error

    def _send(self, name: str, argument: object) -> None:
        with self._sending:
            try:
                self._child.send(name, (argument,))
            except ProcessFailed as error:
                # What the engine core said before it ended tells more, and the reader knows it.
                self._reader.join()
                raise own_copy(self._waiting.failure or error) from error

    def _read(self) -> None:
        try:
            while True:
                while not self._child.connection.poll(POLL_SECONDS):
                    self._child.refuse_silence()
                kind, *rest = self._child.take("generate")
                if kind == "done":
                    self._waiting.done(rest[0])
                    continue
                number, value = rest
                if number in self._answers:  # not one that was given up
                    self._answers.pop(number).set_result(value)
        except Exception as error:  # noqa: BLE001 - told to all who wait, whatever it is
            self.fail(EngineFailed("the engine was closed") if self._closing else error)

    def fail(self, error: BaseException) -> None:
        """Let everybody who waits, and who comes later, get this error."""
        self._waiting.fail(error)
        for number in list(self._answers):
            self._answers.pop(number).set_exception(own_copy(error))

    def close(self, *, failed: bool) -> None:
        """End the engine core, which ends its workers; one that failed gets no time for it."""
        self._closing = True
        if failed:
            self._child.kill()
        # Not by closing the connection: the thread that reads from it would go on waiting.
        with contextlib.suppress(ProcessFailed):
            self._child.send("end")
        self._reader.join(2 * END_SECONDS)
        self._child.close(0 if failed or self._reader.is_alive() else END_SECONDS)


CoreClient = InProcessCore | ProcessCore
"""The engine core, as the front end sees it."""
