"""Why a detector answers what it answers, in its own words, for the report of the resolution."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Generator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


class Reasons:
    """What a detector says while it runs.

    Args:
        quiet: keep nothing, while the winner is asked again.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.said: list[str] = []
        self.warned: list[str] = []


_reasons: contextvars.ContextVar[Reasons | None] = contextvars.ContextVar(
    "platform_abc_reasons", default=None
)


def explain(reason: str, *, warn: bool = False) -> None:
    """Say, from within a detector, why it answers what it answers; the report shows it.

    Args:
        reason: a phrase or sentence, for example `"NVML counts no device"`.
        warn: log it as a warning instead of at DEBUG level.
    """
    collected = _reasons.get()
    if collected is not None:
        if collected.quiet:
            return
        collected.said.append(reason)
        if warn:
            collected.warned.append(reason)
    logger.log(logging.WARNING if warn else logging.DEBUG, "%s", reason)


@contextmanager
def listening(reasons: Reasons, logger_name: str) -> Generator[None]:
    """Collect what a detector explains, and what it logs on its engine's logger."""
    token = _reasons.set(reasons)
    try:
        if logger_name:
            with _captured(reasons, logging.getLogger(logger_name)):
                yield
        else:
            yield
    finally:
        _reasons.reset(token)


class _Capture(logging.Handler):
    """Keeps messages, and passes on those that would have been shown anyway."""

    def __init__(self, reasons: Reasons, original: logging.Logger, level: int) -> None:
        super().__init__(logging.DEBUG)
        self.reasons, self.original, self.shown_from = reasons, original, level

    def emit(self, record: logging.LogRecord) -> None:
        if not self.reasons.quiet:
            self.reasons.said.append(record.getMessage())
        if record.levelno >= self.shown_from and self.original.parent is not None:
            self.original.parent.handle(record)


@contextmanager
def _captured(reasons: Reasons, listened: logging.Logger) -> Generator[None]:
    level, propagate = listened.level, listened.propagate
    handler = _Capture(reasons, listened, listened.getEffectiveLevel())
    listened.addHandler(handler)
    listened.setLevel(logging.DEBUG)
    listened.propagate = False
    try:
        yield
    finally:
        listened.removeHandler(handler)
        listened.setLevel(level)
        listened.propagate = propagate
