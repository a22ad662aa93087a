"""A trace of what the engine asks of the platform: which member, in which process, in which order.

While a trace runs, the platform object's class is exchanged for a subclass that notes every read of a
member of the contract. What a hook itself asks of its own platform is not noted.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import attrs

from platform_abc.members import MEMBERS
from platform_abc.timeline_trace import Seen

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport
    from platform_abc.timeline import Process


@attrs.define
class Trace:
    """What was seen in one process.

    Args:
        process: which one.
        instance: tells two processes of one kind apart.
    """

    process: Process
    instance: int = 0
    seen: list[Seen] = attrs.field(factory=list[Seen], init=False)
    depth: int = attrs.field(default=0, init=False)

    def note(self, name: str) -> None:
        """Add one member or step, unless a hook is running."""
        if not self.depth:
            self.seen.append(Seen(self.process, name, self.instance))

    def note_resolution(self, report: ResolutionReport) -> None:
        """Add the steps of resolution, as its report tells them."""
        for detector in report.detectors:
            if detector.state in {"active", "inactive", "failed"}:
                self.note("detector")
        self.note("import of the platform's module")
        self.note("making of the platform object")


active: Trace | None = None
"""The trace that runs in this process, for the engine's own steps."""


def step(name: str) -> None:
    """Note a step of the engine itself, where a trace runs."""
    if active is not None:
        active.note(name)


@contextlib.contextmanager
def record(trace: Trace, platform: object) -> Generator[Trace]:
    """Note what is asked of `platform` within a `with` block.

    Args:
        trace: where it is noted.
        platform: the platform of this process; it keeps its identity.
    """
    global active
    plain = type(platform)
    before = active
    platform.__class__ = _traced(plain, trace)
    active = trace
    try:
        yield trace
    finally:
        platform.__class__ = plain
        active = before


def _traced(plain: type, trace: Trace) -> type:
    """Return a subclass of `plain` that notes reads of its instances' members."""

    def read(self: object, name: str) -> Any:
        if name not in MEMBERS or trace.depth:
            return object.__getattribute__(self, name)
        trace.note(name)
        trace.depth += 1
        try:
            value = object.__getattribute__(self, name)
        finally:
            trace.depth -= 1
        return _quiet(value, trace) if callable(value) and hasattr(value, "__func__") else value

    names: dict[str, Any] = {
        "__getattribute__": read,
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
    }
    return types.new_class(plain.__name__, (plain,), {}, lambda namespace: namespace.update(names))


def _quiet(method: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
    """Return a method that notes nothing while it runs."""

    def call(*args: Any, **kwargs: Any) -> Any:
        trace.depth += 1
        try:
            return method(*args, **kwargs)
        finally:
            trace.depth -= 1

    return functools.update_wrapper(call, method)
