"""Runs a task in this process, where fork is unsafe, and puts back what it changed.

The asking process keeps the time limit: it ends this process and starts another.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import warnings
from collections.abc import Generator
from pathlib import Path

from conformance.isolation.died import ChildDied
from conformance.isolation.forked import Ended, Task, flush, tail
from conformance.isolation.wire import Channel


def run_inline(task: Task, scratch: Path, cls: type, channel: Channel) -> Ended:
    """Run a task here.

    Args:
        scratch: a folder for its output.
        cls: the class whose attributes are put back.
        channel: where the asking process is told that the task waits for another process.
    """
    printed = scratch / f"output-{secrets.token_hex(8)}"
    with _redirected(printed), restored(cls):
        try:
            answer = task(lambda seconds: channel.send({"extend": seconds}))
        except BaseException as error:
            return Ended(None, ChildDied("exception", f"{type(error).__name__}: {error}"), tail(printed))
    output = tail(printed)
    with contextlib.suppress(OSError):
        printed.unlink()
    return Ended(answer, None, output)


@contextlib.contextmanager
def restored(cls: type) -> Generator[None]:
    """Put back the environment, the working directory, a class, logging and warning filters."""
    env, here = dict(os.environ), os.getcwd()
    attributes = dict(vars(cls))
    level, handlers = logging.root.level, list(logging.root.handlers)
    with warnings.catch_warnings():
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(env)
            os.chdir(here)
            _restore_class(cls, attributes)
            logging.root.setLevel(level)
            logging.root.handlers[:] = handlers


def _restore_class(cls: type, before: dict[str, object]) -> None:
    for name in set(vars(cls)) - set(before):
        with contextlib.suppress(AttributeError, TypeError):
            delattr(cls, name)
    for name, value in before.items():
        if vars(cls).get(name) is not value:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(cls, name, value)


@contextlib.contextmanager
def _redirected(file: Path) -> Generator[None]:
    flush()
    kept = [os.dup(1), os.dup(2)]
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    try:
        yield
    finally:
        flush()
        for number, one in zip((1, 2), kept, strict=True):
            os.dup2(one, number)
            os.close(one)
