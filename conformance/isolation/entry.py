"""The first code of a child interpreter: takes the channel in hand and runs the entry that was asked for."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.isolation.forked import capture, leave, lift, note_exits
from conformance.isolation.wire import Channel


def enter(boot: Mapping[str, Any]) -> None:
    """Run the entry that `boot` names, and leave without exit handlers.

    Args:
        boot: `entry` (`host` or `call`), `descriptor` of the channel, `output` file, and what the
            entry itself takes.
    """
    channel = Channel(lift(int(boot["descriptor"])))
    capture(Path(boot["output"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    note_exits()
    if boot["entry"] == "host":
        from conformance.isolation import host

        host.serve(channel, boot)
    else:
        from conformance.isolation import call

        call.serve(channel, boot)
    leave(0)
