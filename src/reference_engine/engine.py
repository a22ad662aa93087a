"""The front end: creates the configuration, starts the rest, checks requests and hands them on."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from platform_abc.requests import SamplingParams
from platform_abc.timeline import Process
from reference_engine import trace
from reference_engine.child import CALL_SECONDS, START_SECONDS, Child, ChildStart, pickle_config
from reference_engine.engine_config import create_engine_config
from reference_engine.engine_core import EngineCore, Result, serve_engine_core, start_in_process
from reference_engine.hook_log import HookLog
from reference_engine.input_processor import Request, process_request
from reference_engine.worker_start import load_plugins

if TYPE_CHECKING:
    from platform_abc.timeline_trace import Seen
    from reference_engine.args import EngineArgs


class Engine:
    """An engine in this process, or spread over three.

    Args:
        args: what the user said.
        traced: note what is asked of the platform, in every process.

    Raises:
        ConfigError: the user or a hook wrote something invalid.
        ProcessFailed: a process did not start.
    """

    def __init__(self, args: EngineArgs, *, traced: bool = False) -> None:
        import platforms

        report = platforms.resolution_report()
        from platforms import current_platform

        self.log = HookLog()
        self._own = trace.Trace(Process.FRONT_END)
        self._recording = contextlib.ExitStack()
        self._core: EngineCore | None = None
        self._child: Child | None = None
        try:
            if traced:
                self._own.note_resolution(report)
                self._recording.enter_context(trace.record(self._own, current_platform))
            load_plugins()
            self.config = create_engine_config(args, self.log)
            if self.config.parallel_config.distributed_executor_backend == "mp":
                pickled = pickle_config(self.config)
                trace.step("the config is pickled")
                start = ChildStart(
                    process=Process.ENGINE_CORE,
                    config=pickled,
                    report=report.to_json(),
                    # Its start holds the worker's, which must be able to tell first where it hangs.
                    seconds=2 * START_SECONDS + CALL_SECONDS,
                    traced=traced,
                )
                self._child = Child(serve_engine_core, start)
            else:
                self._core = start_in_process(self.config, self.log)
        except BaseException:
            self.close()
            raise

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams | None = None
    ) -> list[Result]:
        """Generate greedily for several prompts at once; a refused one does not stop the others.

        Args:
            prompts: tokens of each prompt.
            params: how they want to be answered.

        Returns:
            One result a prompt, in their order.

        Raises:
            ProcessFailed: the engine core raised or died.
        """
        params = params or SamplingParams()
        checked: list[Request] = []
        refused: dict[str, Result] = {}
        names = [str(index) for index in range(len(prompts))]
        for name, prompt in zip(names, prompts, strict=True):
            try:
                checked.append(process_request(self.config, name, prompt, params))
            except ValueError as error:
                refused[name] = Result(request_id=name, error=str(error))
        done = {result.request_id: result for result in self._run(checked)}
        return [done.get(name) or refused[name] for name in names]

    def _run(self, requests: Sequence[Request]) -> Sequence[Result]:
        if not requests:
            return []
        if self._core is not None:
            return self._core.generate(requests)
        assert self._child is not None
        # Each step has a limit of its own, in the worker.
        steps = sum(request.max_tokens for request in requests)
        results: Sequence[Result] = self._child.call("generate", requests, seconds=CALL_SECONDS * (1 + steps))
        return results

    def traces(self) -> list[Seen]:
        """Return what was noted in all processes, front end first."""
        seen = list(self._own.seen)
        if self._child is not None:
            seen += self._child.call("trace") + self._child.call("worker_trace")
        return seen

    def close(self) -> None:
        """End every process and worker; calling it again does nothing."""
        if self._core is not None:
            self._core.close()
            self._core = None
        if self._child is not None:
            self._child.close()
            self._child = None
        self._recording.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()
