"""`Starter.fresh`: a function in a new interpreter, JSON in and out, its death an exception here."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from conformance.isolation.child import deadline, start, stop
from conformance.isolation.died import ChildDied, timed_out
from conformance.isolation.forked import Extend
from conformance.isolation.wire import Closed

_SLACK = 10.0


@attrs.frozen
class Starter:
    """What every fresh interpreter of a run shares.

    Args:
        path: the import path.
        env: the variables, without those that keep the host single-threaded.
        scratch: a folder for output.
        limit: seconds that each may take.
        extend: tells the supervisor of this process that it waits for another.
    """

    path: Sequence[str]
    env: Mapping[str, str]
    scratch: Path
    limit: float
    extend: Extend = attrs.field(default=lambda seconds: None)

    def fresh(self, function: str, *args: Any, timeout: float | None = None) -> Any:
        """Call a function in a new interpreter and return its result.

        Args:
            function: `module:function`, importable there.
            args: JSON values.
            timeout: seconds; the run's limit if None.

        Raises:
            ChildDied: it crashed, left, hung or raised.
        """
        limit = self.limit if timeout is None else timeout
        self.extend(limit + _SLACK)
        until = deadline(limit)
        child = start(
            "call",
            {"function": function, "args": list(args)},
            path=self.path,
            env=self.env,
            scratch=self.scratch,
        )
        try:
            try:
                message = child.channel.receive(until)
            except TimeoutError:
                raise timed_out(limit, child.abort()) from None
            except Closed:
                raise child.ended(within=2.0) from None
            self._let_end(child.process)
            if "raised" in message:
                raised = message["raised"]
                raise ChildDied(
                    "exception",
                    raised["text"],
                    output=child.output,
                    trace=raised["trace"],
                    place=raised["place"],
                    kinds=tuple(raised["kinds"]),
                )
            return message["result"]
        finally:
            stop(child)
            self.extend(self.limit)

    @staticmethod
    def _let_end(process: subprocess.Popen[bytes]) -> None:
        """Give a child that has answered the moment it needs to leave by itself."""
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            return
