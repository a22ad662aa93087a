"""A pipe by which the front end learns that all processes of its engine are gone."""

from __future__ import annotations

import multiprocessing


class Lifeline:
    """A pipe whose other end every process of the engine holds for as long as it lives."""

    def __init__(self) -> None:
        self._ours, self.theirs = multiprocessing.Pipe(duplex=False)

    def handed_on(self) -> None:
        """Close this process's copy of the other end, once the child has one."""
        self.theirs.close()

    def wait(self, seconds: float) -> bool:
        """Wait until nobody holds the other end; say whether that was so in time."""
        self.theirs.close()
        gone = self._ours.poll(seconds)
        self._ours.close()
        return gone
