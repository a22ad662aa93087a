"""What a platform says while it does something: a change that a warning tells is no silent one."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def told_meanwhile() -> Generator[list[str]]:
    """Collect the text of every warning that is logged or issued meanwhile."""
    told: list[str] = []
    make = logging.getLogRecordFactory()

    def note(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.levelno >= logging.WARNING:
            with contextlib.suppress(Exception):  # arguments that do not fit the text
                told.append(record.getMessage())
        return record

    logging.setLogRecordFactory(note)
    try:
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            yield told
            told += [str(one.message) for one in issued]
    finally:
        logging.setLogRecordFactory(make)
