"""`ChildDied`: a child process ended without the answer it owed, and how."""

from __future__ import annotations

import signal
from typing import Final, Literal

Ending = Literal["signal", "exit", "timeout", "exception", "closed"]

CHANNEL_LOST: Final = 113
"""The exit status of a child whose channel was closed within the child itself."""


class ChildDied(Exception):
    """A child process crashed, left, hung or raised.

    Args:
        how: `signal`, `exit`, `timeout`, `exception` or `closed`.
        detail: what completes the sentence: `signal 11 (SIGSEGV)`, the exit status, the limit, or
            the error as `Type: text`.
        output: the last lines that the child printed.
        trace: the traceback of the exception; empty otherwise.
        place: `file:line` where the exception was raised; empty otherwise.
        kinds: the names of the classes of the exception, most derived first.
    """

    def __init__(
        self,
        how: Ending,
        detail: str,
        *,
        output: str = "",
        trace: str = "",
        place: str = "",
        kinds: tuple[str, ...] = (),
    ) -> None:
        self.how: Ending = how
        self.detail = detail
        self.output = output
        self.trace = trace
        self.place = place
        self.kinds = kinds
        super().__init__(how, detail)

    def __str__(self) -> str:
        if self.how == "signal":
            return f"died on {self.detail}"
        if self.how == "exit":
            return f"exited with status {self.detail} without an answer"
        if self.how == "closed":
            return (
                "closed every open file of its process, the kit's own among them, so that it could not answer"
            )
        if self.how == "timeout":
            return f"did not answer within {self.detail}"
        return f"raised {self.detail}"


def from_status(code: int, output: str = "") -> ChildDied:
    """Make the error for an exit code as `os.waitstatus_to_exitcode` and `Popen.returncode` give it.

    Args:
        code: 0 or more for an exit status, the negative number of a signal otherwise.
        output: the last lines that the child printed.
    """
    if code == CHANNEL_LOST:
        return ChildDied("closed", "its open files", output=output)
    if code >= 0:
        return ChildDied("exit", str(code), output=output)
    try:
        name = f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        name = f"signal {-code}"
    return ChildDied("signal", name, output=output)


def timed_out(seconds: float, output: str = "") -> ChildDied:
    """Make the error for a child that was ended after `seconds`."""
    return ChildDied("timeout", f"{seconds:g} s", output=output)
