"""Workers as processes of this machine: one for each rank, started by spawn."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference_engine.executor import serve_worker
from reference_engine.processes.child import CALL_SECONDS, END_SECONDS, Child, gather
from reference_engine.processes.child_side import Loop, answer_calls
from reference_engine.processes.child_start import START_SECONDS, pickle_config

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from reference_engine.processes.child_start import ChildStart


class WorkerProcesses:
    """The worker processes of one engine core; the configuration goes there pickled.

    Args:
        config: the configuration; its world size is the number of workers.
        parent: how the engine core was started, from which the workers inherit.

    Raises:
        ProcessFailed: a worker did not start; the others are ended.
    """

    def __init__(self, config: EngineConfig, parent: ChildStart) -> None:
        size = config.parallel_config.world_size
        pickled = pickle_config(config)
        # A file is no port for which others could race.
        meeting = (Path(parent.folder) / "ranks").as_uri() if size > 1 else ""
        self._children: list[Child] = []
        try:
            for rank in range(size):
                self._children.append(Child(_serve, parent.of_worker(pickled, rank, rank, meeting)))
            gather(self._children, "start", START_SECONDS)
        except BaseException:
            self._end(0)
            raise

    def ask(self, name: str, *args: Any) -> list[Any]:
        """Return what each worker answers, the first rank first.

        Args:
            name: a method of `InProcessExecutor`.
            *args: its arguments, which are pickled.

        Raises:
            ProcessFailed: one raised, died or hung; all are ended.
        """
        for child in self._children:
            child.send(name, args)
        return gather(self._children, name, CALL_SECONDS)

    def close(self) -> None:
        """End the workers."""
        self._end(END_SECONDS)

    def _end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for child in self._children:
            child.hang_up()
        for child in self._children:
            child.close(max(0.0, until - time.monotonic()))


def _serve(config: EngineConfig, start: ChildStart) -> Loop:
    return functools.partial(answer_calls, serve_worker(config, start))
