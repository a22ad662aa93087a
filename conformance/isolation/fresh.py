"""`Starter.fresh`: a function in a new interpreter, JSON in and out, its death an exception here."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
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

    def fresh(self, function: str, *args: Any, timeout: float | None = None, shared: bool = False) -> Any:
        """Call a function in a new interpreter and return its result.

        Args:
            function: `module:function`, importable there.
            args: JSON values.
            timeout: seconds; the run's limit if None.
            shared: the same call of another check of this run may give the answer. Where that check
                is still waiting for it, this one waits too.

        Raises:
            ChildDied: it crashed, left, hung or raised.
        """
        limit = self.limit if timeout is None else timeout
        return self._shared(function, args, limit) if shared else self._call(function, args, limit)

    def _shared(self, function: str, args: Sequence[Any], limit: float) -> Any:
        """The answer of the first check that asked; a call that fails leaves none."""
        asked = json.dumps([function, args, list(self.path)], sort_keys=True)
        file = self.scratch / f"shared-{hashlib.sha256(asked.encode()).hexdigest()[:32]}"
        self.extend(2 * limit + _SLACK)
        with file.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel opens it again when this process ends
            if file.exists():
                self.extend(self.limit)
                return json.loads(file.read_text(encoding="utf-8"))
            result = self._call(function, args, limit)
            part = file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(result), encoding="utf-8")
            part.replace(file)
            return result

    def _call(self, function: str, args: Sequence[Any], limit: float) -> Any:
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
