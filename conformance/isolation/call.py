"""The entry that calls one function, named as `module:function`, in a fresh interpreter."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Mapping
from typing import Any, Final

from conformance.answers import clip
from conformance.isolation.forked import flush
from conformance.isolation.wire import Channel

_LONGEST_TRACE: Final = 20_000


def serve(channel: Channel, boot: Mapping[str, Any]) -> None:
    """Call the function and send its result, or what it raised.

    Args:
        channel: to the asking process.
        boot: `function` and `args`.
    """
    send, process = channel.send, os.getpid()
    try:
        module, _, name = str(boot["function"]).partition(":")
        result = getattr(importlib.import_module(module), name)(*boot["args"])
        flush()
        if os.getpid() == process:  # not a copy that the platform forked
            send({"result": result})
    except BaseException as error:
        flush()
        send({"raised": describe(error)})


def describe(error: BaseException) -> dict[str, Any]:
    """What another process needs to know of an exception, as JSON values."""
    frames = traceback.extract_tb(error.__traceback__)
    text = " ".join(clip(_text(error)).split())
    return {
        "text": f"{type(error).__name__}: {text}" if text else type(error).__name__,
        "trace": clip("".join(traceback.format_exception(error)), _LONGEST_TRACE),
        "place": f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "",
        "files": [frame.filename for frame in frames],
        "kinds": [one.__name__ for one in type(error).__mro__],
    }


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as second:
        return f"(its text raises {type(second).__name__})"
