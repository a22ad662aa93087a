"""The timeline of a traced run, as a table by process."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

from platform_abc.hooks.trace import Moment
from platform_abc.timeline import Process

_WIDTH: Final = 160


def require_rich() -> None:
    """Refuse to go on without the library that draws tables.

    Raises:
        RuntimeError: it is missing.
    """
    try:
        importlib.import_module("rich")
    except ImportError as error:
        raise RuntimeError(
            "--trace-hooks needs the package rich: pip install 'platform-abc[conformance]'"
        ) from error


def print_trace(moments: Sequence[Moment]) -> None:
    """Print on stderr when each hook ran in each process, and what it changed.

    Args:
        moments: of all processes, in the order of each.
    """
    from rich.console import Console
    from rich.table import Table

    start = min((one.at for one in moments), default=0.0)
    table = Table(title="hooks in time", caption="first time in seconds since the engine began")
    for title in ("process", "first", "what", "times", "changed"):
        table.add_column(title, no_wrap=title != "changed", overflow="fold")
    before = ""
    for one, times in _joined(moments):
        name = f"{one.process.value} {one.instance}" if one.instance else one.process.value
        if before and name != before:
            table.add_section()
        shown, before = "" if name == before else name, name
        table.add_row(shown, f"{one.at - start:.3f}", one.name, str(times), "\n".join(one.changes))
    console = Console(stderr=True)
    if not console.is_terminal:
        console.width = _WIDTH  # a file has no width, and no reason to break lines
    console.print(table)


def _joined(moments: Sequence[Moment]) -> list[tuple[Moment, int]]:
    """Join what is the same in a process: the first moment, and how often it happened."""
    counts: dict[tuple[Process, int, str, tuple[str, ...]], list[Moment]] = {}
    for one in moments:
        counts.setdefault((one.process, one.instance, one.name, tuple(one.changes)), []).append(one)
    return [(those[0], len(those)) for those in counts.values()]
