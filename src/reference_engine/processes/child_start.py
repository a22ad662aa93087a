"""What a child process is started with."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import attrs

from platform_abc.foreign import describe
from platform_abc.hooks import trace
from platform_abc.timeline import Process

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig

START_SECONDS: Final = 120.0
"""Longest wait for a child to start, which includes the import of torch."""

HOOK_SECONDS: Final = 8.0
"""Longest time that a hook may take, where nobody says another."""


@attrs.frozen(kw_only=True)
class ChildStart:
    """What a child is started with; it is pickled.

    Args:
        process: which process of the engine it is.
        config: the pickled configuration.
        report: the parent's resolution report, as JSON.
        seconds: longest time that its start may take.
        traced: note what is asked of the platform.
        instance: tells two children of one kind apart: the rank of a worker.
        local_rank: the worker among those of its machine.
        init_method: where the ranks meet; empty for one rank.
        hook_seconds: longest time that a hook may take.
        folder: a folder of this engine alone, which the front end removes; empty if it has none.
        own_session: it leads a session, so that all that it starts can be found and ended.
        ray_address: the Ray cluster to which the front end is connected; empty if it is not.
        lifeline: an end of a pipe that the front end watches: it closes when all processes are gone.
    """

    process: Process
    config: bytes
    report: str
    seconds: float = START_SECONDS
    traced: bool = False
    instance: int = 0
    local_rank: int = 0
    init_method: str = ""
    hook_seconds: float = HOOK_SECONDS
    folder: str = ""
    own_session: bool = False
    ray_address: str = ""
    lifeline: Connection | None = None

    @property
    def name(self) -> str:
        """The process's name, for messages."""
        return f"{self.process.value} {self.instance}" if self.instance else self.process.value

    @property
    def stacks(self) -> Path | None:
        """Where the child's stacks go when it stands still; None on a machine that has no folder for it."""
        return (
            Path(self.folder) / f"{self.name}.stacks" if self.folder and Path(self.folder).is_dir() else None
        )

    def of_worker(self, config: bytes, rank: int, local_rank: int, init_method: str) -> ChildStart:
        """Return how an engine core, which was started with this, starts a worker.

        Args:
            config: the pickled configuration.
            rank: the worker among all.
            local_rank: the worker among those of its machine.
            init_method: where the ranks meet.
        """
        return attrs.evolve(
            self,
            process=Process.WORKER,
            config=config,
            seconds=START_SECONDS,
            own_session=False,
            instance=rank,
            local_rank=local_rank,
            init_method=init_method,
        )


def pickle_config(config: EngineConfig) -> bytes:
    """Pickle a configuration for another process.

    Raises:
        TypeError: something in it does not pickle; the message names the part.
    """
    try:
        pickled = pickle.dumps(config)
    except Exception as error:
        broken = [path for name, part in vars(config).items() for path in _unpicklable(name, part)]
        raise TypeError(
            f"the configuration cannot be sent to another process: {', '.join(broken) or 'it'} does not pickle "
            f"({describe(error)}); a config hook must not put such values there"
        ) from error
    trace.step("the config is pickled")
    return pickled


def _unpicklable(path: str, value: object, depth: int = 0) -> list[str]:
    """Return the paths of what does not pickle, as deep within parts and dicts as it can be told."""
    with contextlib.suppress(Exception):  # pickling runs foreign code
        pickle.dumps(value)
        return []
    held: object = getattr(value, "__dict__", None)
    inner: object = cast("object", value) if isinstance(value, dict) else held
    found: list[str] = []
    if isinstance(inner, dict) and depth < 8:
        for name, item in cast("Mapping[object, object]", inner).items():
            found += _unpicklable(f"{path}.{name}", item, depth + 1)
    return found or [path]
