"""The signals that stop a run: SIGTERM ends it as SIGINT does, and neither cuts a report short."""

from __future__ import annotations

import signal
import threading
from typing import Any

import attrs


@attrs.define
class Stops:
    """What the two signals did before, to be put back."""

    _before: dict[signal.Signals, Any] = attrs.field(factory=dict[signal.Signals, Any])

    def take(self) -> None:
        """Let SIGTERM, which would end pytest without a word, raise `KeyboardInterrupt`.

        Somebody's own handler stays; in another thread than the main one nothing can be done.
        """
        main = threading.current_thread() is threading.main_thread()
        if main and not self._before and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    def hold(self) -> None:
        """Let nothing interrupt what follows."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        """Put back what the signals did."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
