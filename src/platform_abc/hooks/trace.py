"""A trace of what the engine asks of the platform: which member, in which process, in which order.

While a trace runs, the platform object's class is exchanged for a subclass that notes every read of a
member of the contract. What a hook itself asks of its own platform is not noted.
"""

from __future__ import annotations

import contextlib
import functools
import time
import types
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from platform_abc.members import MEMBERS
from platform_abc.timeline import Process
from platform_abc.timeline_trace import Seen

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport


@attrs.define
class Moment:
    """One entry of a trace.

    Args:
        process: the process.
        name: the member or step.
        instance: tells two processes of one kind apart.
        at: when, in seconds since the epoch.
        changes: what it changed in the configuration, where that was watched.
    """

    process: Process
    name: str
    instance: int
    at: float
    changes: Sequence[str] = ()


@attrs.define
class Trace:
    """What was seen in one process.

    Args:
        process: which one.
        instance: tells two processes of one kind apart.
    """

    process: Process
    instance: int = 0
    moments: list[Moment] = attrs.field(factory=list[Moment], init=False)
    depth: int = attrs.field(default=0, init=False)

    @property
    def seen(self) -> list[Seen]:
        """The names alone, as the table of hooks is compared with them."""
        return as_seen(self.moments)

    def note(self, name: str) -> None:
        """Add one member or step, unless a hook is running."""
        if not self.depth:
            self.moments.append(Moment(self.process, name, self.instance, time.time()))

    def note_resolution(self, report: ResolutionReport) -> None:
        """Add the steps of resolution, as its report tells them."""
        for detector in report.detectors:
            if detector.state in {"active", "inactive", "failed"}:
                self.note("detector")
        self.note("import of the platform's module")
        self.note("making of the platform object")


def as_seen(moments: Iterable[Moment]) -> list[Seen]:
    """Return the names alone of some moments."""
    return [Seen(one.process, one.name, one.instance) for one in moments]


active: Trace | None = None
"""The trace that runs in this process."""


def moments() -> list[Moment]:
    """Return what was noted in this process; nothing where no trace runs."""
    return [] if active is None else list(active.moments)


def step(name: str, *, once: bool = False) -> None:
    """Note a step of the engine itself, where a trace runs; `once` unless it was noted before."""
    if active is not None and not (once and any(one.name == name for one in active.moments)):
        active.note(name)


def changed(name: str, changes: Sequence[str]) -> None:
    """Note what the latest call of a hook changed, where a trace runs."""
    for one in reversed(active.moments if active is not None else ()):
        if one.name == name:
            one.changes = changes
            return


def start(trace: Trace, platform: object) -> None:
    """Note what is asked of `platform` from now on.

    Args:
        trace: where it is noted.
        platform: the platform of this process; it keeps its identity.
    """
    global active
    platform.__class__ = _traced(type(platform), trace)
    active = trace


@contextlib.contextmanager
def record(trace: Trace, platform: object) -> Generator[Trace]:
    """Note what is asked of `platform` within a `with` block; see `start`."""
    global active
    plain, before = type(platform), active
    start(trace, platform)
    try:
        yield trace
    finally:
        platform.__class__ = plain
        active = before


@contextlib.contextmanager
def front_end(platform: object, report: ResolutionReport) -> Generator[Trace]:
    """Note what is asked in the front end, beginning with its resolution; where a trace runs, go on with it.

    Args:
        platform: the platform of this process.
        report: how it was chosen.
    """
    if active is not None:
        yield active
        return
    trace = Trace(Process.FRONT_END)
    trace.note_resolution(report)
    with record(trace, platform):
        yield trace


def _traced(plain: type, trace: Trace) -> type:
    """Return a subclass of `plain` that notes reads of its instances' members."""
    # Checkers take it for that of the class itself.
    look_up: Callable[[object, str], Any] = getattr(plain, "__getattribute__")  # noqa: B009

    def read(self: object, name: str) -> Any:
        if trace.depth:
            return look_up(self, name)
        if name not in MEMBERS:
            try:
                return look_up(self, name)
            except AttributeError:
                # Python goes on to the fallback, without another look at the instance.
                trace.note("__getattr__")
                raise
        trace.note(name)
        trace.depth += 1
        try:
            value = look_up(self, name)
        finally:
            trace.depth -= 1
        return _quiet(value, trace) if callable(value) and hasattr(value, "__func__") else value

    names: dict[str, Any] = {
        "__getattribute__": read,
        "__slots__": (),
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
