"""`Starter.fresh`: a function in a new interpreter, JSON in and out, its death an exception here."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from conformance.isolation import leftovers, slots
from conformance.isolation.child import deadline, start, stop
from conformance.isolation.copies import Copy
from conformance.isolation.died import ChildDied, timed_out
from conformance.isolation.forked import Extend
from conformance.isolation.wire import Closed

_SLACK: Final = 15.0
"""Seconds beyond the limit of a fresh interpreter in which its caller ends it and tidies up."""


@attrs.frozen
class Starter:
    """What every fresh interpreter of a run shares.

    Args:
        path: the import path.
        env: the variables, without those that keep the host single-threaded.
        scratch: a folder for output, for shared answers, and for the turns of a run.
        limit: seconds that each may take.
        extend: tells the supervisor of this process that it waits for another.
        left: what interpreters left behind, in words; `fresh` adds to it.
    """

    path: Sequence[str]
    env: Mapping[str, str]
    scratch: Path
    limit: float
    extend: Extend = attrs.field(default=lambda seconds: None)
    left: list[str] = attrs.field(factory=list[str])

    def fresh(self, function: str, *args: Any, timeout: float | None = None, shared: bool = False) -> Any:
        """Call a function in a new interpreter and return its result.

        No more of them run at a time than there are cores; the wait for a turn counts towards no limit.
        When it has answered, or died, its whole tree of processes is ended, those with sessions of
        their own included; what had to be ended, and shared memory that stayed, is added to `left`.

        Args:
            function: `module:function`, importable there.
            args: JSON values.
            timeout: seconds; the check's limit if None.
            shared: the same call of another check of this run may give the answer, or the way it died.
                Where that check is still waiting for it, this one waits too.

        Raises:
            ChildDied: it crashed, left, hung or raised.
        """
        limit = self.limit if timeout is None else timeout
        try:
            return self._shared(function, args, limit) if shared else self._call(function, args, limit)
        finally:
            self.extend(self.limit)

    def _shared(self, function: str, args: Sequence[Any], limit: float) -> Any:
        """What the first check that asked was told."""
        asked = json.dumps([function, args, list(self.path)], sort_keys=True)
        file = self.scratch / f"shared-{hashlib.sha256(asked.encode()).hexdigest()[:32]}"
        with slots.turn([file.with_suffix(".lock")], lambda: self.extend(limit + _SLACK)):
            if not file.exists():
                part = file.with_suffix(f".{os.getpid()}")
                part.write_text(json.dumps(self._told(function, args, limit)), encoding="utf-8")
                part.replace(file)
        told = json.loads(file.read_text(encoding="utf-8"))
        if "died" in told:
            raise _again(told["died"])
        return told["result"]

    def _told(self, function: str, args: Sequence[Any], limit: float) -> dict[str, Any]:
        try:
            return {"result": self._call(function, args, limit)}
        except ChildDied as died:
            fields = ("how", "detail", "output", "trace", "place", "kinds")
            return {"died": {name: getattr(died, name) for name in fields}}

    def _call(self, function: str, args: Sequence[Any], limit: float) -> Any:
        def waiting() -> None:
            self.extend(limit + _SLACK)

        turns = [self.scratch / f"turn-{number}" for number in range(slots.cores())]
        with slots.turn(turns, waiting):
            waiting()
            before = leftovers.look()
            try:
                result = self._ask(function, args, limit)
            except ChildDied as died:
                left = leftovers.clear(before, grace=0.0)
                if died.how == "exception":  # else it was ended, or had no chance to tidy up
                    self.left.extend(left)
                raise
            self.left.extend(leftovers.clear(before))
            return result

    def _ask(self, function: str, args: Sequence[Any], limit: float) -> Any:
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

    @staticmethod
    def _let_end(process: subprocess.Popen[bytes] | Copy) -> None:
        """Give a child that has answered the moment it needs to leave by itself."""
        try:
            process.wait(2.0)
        except (subprocess.TimeoutExpired, TimeoutError):
            return


def _again(told: Mapping[str, Any]) -> ChildDied:
    """The way in which a shared call died, for another check that asked for it."""
    return ChildDied(
        told["how"],
        told["detail"],
        output=told["output"],
        trace=told["trace"],
        place=told["place"],
        kinds=tuple(told["kinds"]),
    )
