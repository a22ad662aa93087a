"""Compare what an engine really called with the table of hooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs

from platform_abc.timeline import Layout, Process, processes_of, promised_order, rows


@attrs.frozen
class Seen:
    """One entry of a trace: a name of the table, seen in a process.

    Args:
        process: which one.
        name: the member or step.
        instance: tells two processes of one kind apart, for example two workers.
    """

    process: Process
    name: str
    instance: int = 0


def violations(trace: Iterable[Seen], layout: Layout = "worker-processes") -> list[str]:
    """Compare a trace of a whole run with the table.

    Args:
        trace: what was seen, in order; names that the table does not have are ignored.
        layout: how the run was spread over processes.

    Returns:
        One sentence for each deviation: a hook in a process where it does not run, too often, too
        rarely, or before one that comes earlier.
    """
    by_process: dict[tuple[Process, int], list[str]] = {}
    for seen in trace:
        by_process.setdefault((seen.process, seen.instance), []).append(seen.name)
    found: list[str] = []
    for (process, instance), names in by_process.items():
        where = f"{process.value} {instance}" if instance else process.value
        found += _misplaced(process, where, names, layout)
        found += _miscounted(process, where, names, layout)
        found += _disordered(process, where, names, layout)
    return found


def _misplaced(process: Process, where: str, names: Sequence[str], layout: Layout) -> list[str]:
    """Hooks and steps have their processes; a query may be asked wherever the engine needs it."""
    called = {row.name for row in rows(layout=layout) if row.kind != "read"}
    return [
        f"{name} ran in the {where}, where it does not run"
        for name in dict.fromkeys(names)
        if name in called and process not in processes_of(name, layout)
    ]


def _miscounted(process: Process, where: str, names: Sequence[str], layout: Layout) -> list[str]:
    found: list[str] = []
    for name in dict.fromkeys(row.name for row in rows(process=process, layout=layout)):
        those = rows(name, process=process, layout=layout)
        count = names.count(name)
        least = sum(row.least for row in those)
        most = None if any(row.most is None for row in those) else sum(row.most or 0 for row in those)
        if name == "detector":
            continue  # counted for each detector, which a trace by name does not tell apart
        if count < least:
            found.append(f"{name} ran {count} times in the {where}, expected at least {least}")
        if most is not None and count > most:
            found.append(f"{name} ran {count} times in the {where}, expected at most {most}")
    return found


def _disordered(process: Process, where: str, names: Sequence[str], layout: Layout) -> list[str]:
    present = [name for name in promised_order(process, layout) if name in names]
    return [
        f"{later} ran before {earlier} in the {where}"
        for earlier, later in pairwise(present)
        if names.index(later) < names.index(earlier)
    ]
