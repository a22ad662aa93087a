"""The signals that stop a run."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from conformance.stops import Stops


def test_sigterm_interrupts_until_it_is_held_and_is_put_back() -> None:
    """Taken, SIGTERM raises; held, neither signal does; restored, both do what they did before."""
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    assert before[1] is signal.SIG_DFL
    stops = Stops()
    stops.take()
    try:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        stops.hold()
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
    finally:
        stops.restore()
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_handler_of_somebody_else_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who handles SIGTERM already keeps it, and a thread that may not ask for signals changes none."""
    mine = lambda number, frame: None  # noqa: E731
    signal.signal(signal.SIGTERM, mine)
    try:
        stops = Stops()
        stops.take()
        stops.hold()
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    thread = threading.Thread(target=Stops().take)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
