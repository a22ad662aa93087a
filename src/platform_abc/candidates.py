"""The detectors that one resolution asks, and what each of them did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from platform_abc.foreign import plain

if TYPE_CHECKING:
    from platform_abc.plugins import Plugin, PluginFailure
    from platform_abc.resolution_report import DetectorOutcome, Kind, State

Detector = Callable[[], str | None]


class Candidate:
    """A detector that can be asked, and what it did; the fields are those of `DetectorOutcome`."""

    def __init__(
        self, name: str, detector: Detector | None, source: str, plugin: Plugin | None = None
    ) -> None:
        self.name = name
        self.detector = detector
        self.source = source
        self.kind: Kind = "built-in" if plugin is None else "out-of-tree"
        self.distribution = "" if plugin is None else plugin.origin
        self.title = f"{name} ({self.distribution})" if self.distribution else name
        self.state: State = "not-asked"
        self.answer: str | None = None
        self.error = self.traceback = ""
        self.reasons: tuple[str, ...] = ()
        self.seconds = 0.0

    def ask(self) -> object:
        """Call the detector."""
        return None if self.detector is None else plain(self.detector())

    def outcome(self) -> DetectorOutcome:
        """Return what it did, for the report."""
        from platform_abc.resolution_report import DetectorOutcome

        return DetectorOutcome(
            name=self.name,
            kind=self.kind,
            source=self.source,
            distribution=self.distribution,
            state=self.state,
            answer=self.answer,
            error=self.error,
            traceback=self.traceback,
            reasons=self.reasons,
            seconds=self.seconds,
        )


def left_out(plugin: Plugin, failed: PluginFailure | None = None) -> Candidate:
    """Return the record of a plugin that is not asked.

    Args:
        plugin: which one.
        failed: why it could not be loaded; None if the filter keeps it out.
    """
    made = Candidate(plugin.name, None, plugin.value, plugin)
    made.state = "filtered"
    if failed is not None:
        made.state, made.error, made.traceback = "failed", failed.error, failed.traceback
    return made


def source_of(detector: Detector) -> str:
    """Return where a detector is defined, `package.module:function`."""
    module = getattr(detector, "__module__", "?")
    return f"{module}:{getattr(detector, '__qualname__', repr(detector))}"


def tried(outcomes: list[Candidate]) -> list[str]:
    """What each detector said, those with the same words together."""
    by_reason: dict[str, list[str]] = {}
    for each in outcomes:
        said = {"failed": f"failed with {each.error}", "filtered": "kept out by the plugin filter"}.get(
            each.state
        )
        reason = said or (each.reasons[-1] if each.reasons else "answered None")
        by_reason.setdefault(reason, []).append(each.title)
    return [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
