"""The front end: creates the configuration, starts the rest, checks requests and hands them on."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import itertools
import logging
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from platform_abc.errors import ConfigError
from platform_abc.hooks import trace
from platform_abc.hooks.watch import (
    EngineFailed,
    HookHung,
    HookWatch,
    said,
    takes_signals,
)
from platform_abc.requests import SamplingParams
from platform_abc.timeline import Process
from reference_engine.core_client import CoreClient, InProcessCore, ProcessCore, tell
from reference_engine.engine_config import create_engine_config
from reference_engine.engine_core import serve_engine_core, start_in_process
from reference_engine.input_processor import Request, process_request
from reference_engine.processes.child import CALL_SECONDS, Child
from reference_engine.processes.child_start import START_SECONDS, ChildStart, pickle_config
from reference_engine.processes.lifeline import Lifeline, end_session
from reference_engine.scheduler import Result
from reference_engine.worker_start import load_plugins

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from platform_abc.resolution_report import ResolutionReport
    from platform_abc.timeline_trace import Seen
    from reference_engine.args import EngineArgs

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CLOSE_SECONDS: Final = 9.0
"""Longest time that a worker in this process may take to end."""

GONE_SECONDS: Final = 3.0
"""Longest wait for the last process of a closed engine; each ends by itself when its parent is gone."""


class Engine:
    """An engine in this process, or spread over several. Threads may use it at once.

    When a process of it fails, or a hook raises or hangs, everybody who waits gets an error that names both,
    the engine is closed, and nothing of it is left.

    Args:
        args: what the user said.
        traced: note what is asked of the platform, in every process.

    Raises:
        ConfigError: the user or a hook wrote something invalid.
        EngineFailed: a process did not start, or a hook hung.
    """

    def __init__(self, args: EngineArgs, *, traced: bool = False) -> None:
        import platforms

        if not 0 < args.hook_timeout < math.inf:
            raise ConfigError(f"hook_timeout = {args.hook_timeout!r}: expected a number of seconds above 0")
        report = platforms.resolution_report()
        self._own = trace.Trace(Process.FRONT_END)
        self._rest = contextlib.ExitStack()
        self._core: CoreClient | None = None
        self._numbers = itertools.count()
        self._closing = threading.Lock()
        self._failure: BaseException | None = None
        self._owner = os.getpid()
        self._left: set[Future[Any]] = set()
        self._watch = HookWatch(
            Process.FRONT_END.value,
            args.hook_timeout,
            platforms.resolved_platform,
            self._hangs,
            interrupts=True,
        )
        self._rest.callback(self._watch.close)
        atexit.register(self.close)
        self._rest.callback(atexit.unregister, self.close)
        if traced:
            self._own = self._rest.enter_context(trace.front_end(platforms.current_platform, report))
        self.config: EngineConfig
        self._guarded(lambda: self._start(args, report, traced=traced))

    def _start(self, args: EngineArgs, report: ResolutionReport, *, traced: bool) -> None:
        load_plugins()
        self.config = create_engine_config(args)
        backend = self.config.parallel_config.distributed_executor_backend
        if backend in (None, "uni") and (backend or self.config.parallel_config.world_size == 1):
            self._core = InProcessCore(start_in_process(self.config))
        else:
            self._core = self._start_processes(report, args.hook_timeout, traced=traced)

    def _start_processes(self, report: ResolutionReport, hook_seconds: float, *, traced: bool) -> ProcessCore:
        backend = self.config.parallel_config.distributed_executor_backend
        address = ""
        if backend == "ray":
            from reference_engine.ray_executor import address_of_user, check_ray

            check_ray()
            address = address_of_user()
        elif backend not in (None, "mp"):
            raise ConfigError(
                f"parallel_config.distributed_executor_backend = {backend!r}: expected uni, mp or ray"
            )
        pickled = pickle_config(self.config)
        folder = tempfile.mkdtemp(prefix="engine-")
        self._rest.callback(shutil.rmtree, folder, ignore_errors=True)
        lifeline = Lifeline()
        child = Child(
            serve_engine_core,
            ChildStart(
                process=Process.ENGINE_CORE,
                config=pickled,
                report=report.to_json(),
                # Its start holds the workers', which must be able to tell first where they hang.
                seconds=2 * START_SECONDS + CALL_SECONDS,
                traced=traced,
                hook_seconds=hook_seconds,
                folder=folder,
                lifeline=lifeline.theirs,
                ray_address=address,
                own_session=backend == "ray",
            ),
        )
        lifeline.handed_on()
        if backend == "ray":
            self._rest.callback(end_session, child.pid)
        self._rest.callback(lifeline.wait, GONE_SECONDS)
        return ProcessCore(child.ready())

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        lora_ids: Sequence[int] | None = None,
        progress: Callable[[Result], None] | None = None,
    ) -> list[Result]:
        """Generate greedily for several prompts at once; a refused one does not stop the others.

        Args:
            prompts: tokens of each prompt.
            params: how they want to be answered: one for all, or one for each.
            lora_ids: the adapter of each prompt, 0 for none; None for the base model.
            progress: called with each result as it comes; what it raises is logged.

        Returns:
            One result a prompt, in their order.

        Raises:
            ValueError: there are not as many parameters or adapters as prompts.
            EngineFailed: the engine ended, here or in another thread.
        """
        each = _one_each("params", params or SamplingParams(), len(prompts))
        adapters = _one_each("lora_ids", lora_ids or 0, len(prompts))
        names = [str(next(self._numbers)) for _ in prompts]
        done: dict[str, Result] = {}

        def work() -> None:
            checked: list[Request] = []
            for name, prompt, wanted, adapter in zip(names, prompts, each, adapters, strict=True):
                try:
                    checked.append(process_request(self.config, name, prompt, wanted, adapter))
                except ValueError as error:
                    done[name] = Result(request_id=name, error=said(error))
            for refused in list(done.values()):
                tell(progress, refused)
            if checked:
                done.update((one.request_id, one) for one in self._running().run(checked, progress))

        self._guarded(work)
        return [done[name] for name in names]

    def check_health(self) -> None:
        """Return at once if a step can run.

        Raises:
            EngineFailed: the engine has ended, or a worker cannot run one.
        """
        self._guarded(lambda: self._running().check_health())

    def _running(self) -> CoreClient:
        core = self._core
        if os.getpid() != self._owner:
            raise EngineFailed(
                "this is a fork of the process whose engine it is: make an engine after the fork"
            )
        if core is None:
            raise EngineFailed(str(self._failure or "the engine is closed"))
        return core

    def _guarded(self, work: Callable[[], T]) -> T:
        """Do something that may call hooks; when it fails, or a hook hangs, the engine ends.

        Raises:
            EngineFailed: a hook hung.
        """
        if takes_signals(threading.get_ident()):
            return self._watched(work)
        # Whatever waits in another thread cannot be interrupted, only left behind; so it is not the caller's.
        result: Future[T] = Future()

        def run() -> None:
            with contextlib.suppress(InvalidStateError):
                try:
                    result.set_result(self._watched(work))
                except BaseException as error:  # noqa: BLE001 - the caller raises it, whatever it is
                    result.set_exception(error)

        self._left.add(result)
        threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
        try:
            return result.result()
        except HookHung as error:
            self._end(error)
            raise
        finally:
            self._left.discard(result)

    def _watched(self, work: Callable[[], T]) -> T:
        try:
            with self._watch.watching(), self._watch.naming():
                return work()
        except Exception as error:
            self._end(error)
            raise
        except BaseException:
            if self._core is None:
                self.close()  # interrupted at the start
            raise

    def _hangs(self, text: str) -> None:
        """Let all who wait go, although the hook itself may never return."""
        self._failure = self._failure or HookHung(text)
        if self._core is not None:
            self._core.fail(self._failure)
        for result in list(self._left):
            with contextlib.suppress(InvalidStateError):
                result.set_exception(HookHung(text))

    def _end(self, error: BaseException | None) -> None:
        if os.getpid() != self._owner:
            return
        with self._closing:
            self._failure = self._failure or error
            core, self._core = self._core, None
            try:
                if core is not None:
                    if error is not None:
                        core.fail(error)
                    with self._watch.watching(), self._watch.limited(_CLOSE_SECONDS), self._watch.naming():
                        core.close(failed=error is not None)
            except Exception:
                if error is None:
                    raise
                logger.warning("the engine did not end well after it failed", exc_info=True)
            finally:
                self._rest.close()

    def traces(self) -> list[Seen]:
        """Return the names of what was noted in all processes, front end first."""
        return trace.as_seen(self.moments())

    def moments(self) -> list[trace.Moment]:
        """Return what was noted in all processes, with times and changes, front end first."""
        return [*self._own.moments, *(self._core.traces() if self._core is not None else ())]

    def close(self) -> None:
        """End every process and worker; calling it again, or in a fork of this process, does nothing."""
        self._end(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _one_each(name: str, given: T | Sequence[T], count: int) -> Sequence[T]:
    """Return one value for each prompt.

    Raises:
        ValueError: there are more or fewer.
    """
    if not isinstance(given, (list, tuple)):
        return [cast("T", given)] * count
    values = cast("Sequence[T]", given)
    if len(values) != count:
        raise ValueError(f"expected one of {name} for each of the {count} prompts, got {len(values)}")
    return values
