"""Resolve once per process, whichever thread reads first, without hanging.

A read from within the resolution (a detector, or the platform's own module) and a wait that takes
too long both end with a `ResolutionError` that says who does what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from platform_abc import envs
from platform_abc.errors import ResolutionError
from platform_abc.resolution import Resolution, ResolutionSpec, stack_of_reader, start
from platform_abc.turn import Turn

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport


class Resolver:
    """The one platform object of a process, made on first use.

    Args:
        spec: gives the rules; called when the resolution starts.
        timeout: gives the seconds that a thread waits for another one's resolution.
        skip: file names whose frames are left out of the first read's stack.
    """

    def __init__(
        self,
        spec: Callable[[], ResolutionSpec],
        timeout: Callable[[], float] = envs.resolution_timeout,
        skip: tuple[str, ...] = (),
    ) -> None:
        self._spec = spec
        self._skip = (__file__, *skip)
        self._turn = Turn("resolving the platform", timeout)
        self._done: Resolution | None = None
        self._report: ResolutionReport | None = None

    def platform(self) -> object:
        """Return the platform object; the first call resolves, and after a failure the next one again.

        Raises:
            ResolutionError: it cannot be resolved, is being resolved by this very thread, or
                another thread takes too long.
        """
        return self._resolved().platform

    def report(self) -> ResolutionReport:
        """Return the report of the resolution; resolves if that has not happened yet.

        Raises:
            ResolutionError: as `platform`; the error's `report` is then the report.
        """
        done = self._resolved()
        if self._report is None:
            self._report = done.report()
        return self._report

    def reset(self) -> None:
        """Forget the platform, so that the next read resolves again; for tests only."""
        self._done = self._report = None

    def _resolved(self) -> Resolution:
        if self._done is not None:
            return self._done
        if self._turn.is_mine:
            raise ResolutionError(
                f"current_platform is read while it is being resolved (now {self._turn.step}): a detector and "
                "the modules it imports, and the platform's own module, must not read it; read it later, "
                "inside the function that needs it"
            )
        with self._turn.taken():
            return self._first()

    def _first(self) -> Resolution:
        """Resolve, unless another thread has done so while this one waited."""
        if self._done is None:
            run = start(self._spec(), first_read=stack_of_reader(self._skip), progress=self._turn.remember)
            if run.error is not None:
                run.error.report = run.report()
                raise run.error
            self._done = run
        return self._done
