"""A trace is compared with the table; each kind of deviation is one sentence."""

from __future__ import annotations

import pytest

from platform_abc.timeline import Layout, Process, rows
from platform_abc.timeline_trace import Seen, violations


def complete(layout: Layout) -> list[Seen]:
    """A trace in which everything happens once, in the order of the table."""
    return [
        Seen(process, row.name)
        for process in Process
        for row in rows(process=process, layout=layout)
        if row.least or row.most is None or row.name == "log_warnings"
    ]


@pytest.mark.parametrize("layout", ["one-process", "worker-processes"])
def test_a_run_by_the_table_has_no_deviation(layout: Layout) -> None:
    """Each hook where, when and as often as the table says."""
    assert violations(complete(layout), layout) == []


def test_unknown_names_are_ignored() -> None:
    """Vendors have methods of their own."""
    trace = complete("one-process")
    assert violations([*trace, Seen(Process.FRONT_END, "some_vendor_method")], "one-process") == []


def test_a_query_may_be_asked_anywhere() -> None:
    """The table tells where traces saw it; an engine may need it elsewhere."""
    trace = [*complete("worker-processes"), Seen(Process.ENGINE_CORE, "supported_dtypes")]
    assert violations(trace) == []


def test_a_hook_in_the_wrong_process_is_told() -> None:
    """Config hooks do not run in workers."""
    trace = [*complete("worker-processes"), Seen(Process.WORKER, "check_and_update_config")]
    assert violations(trace) == ["check_and_update_config ran in the worker, where it does not run"]


def test_a_hook_that_runs_too_often_or_not_at_all_is_told() -> None:
    """For each process by itself."""
    trace = complete("worker-processes")
    twice = [*trace, Seen(Process.ENGINE_CORE, "check_and_update_config")]
    assert violations(twice) == ["check_and_update_config ran 2 times in the engine core, expected at most 1"]
    never = [seen for seen in trace if seen != Seen(Process.WORKER, "update_block_size_for_backend")]
    assert violations(never) == [
        "update_block_size_for_backend ran 0 times in the worker, expected at least 1"
    ]


def test_a_hook_out_of_order_is_told() -> None:
    """Both names are given."""
    trace = complete("worker-processes")
    first = Seen(Process.FRONT_END, "check_and_update_config")
    trace.remove(first)
    trace.insert(0, first)
    assert any("check_and_update_config ran before" in each for each in violations(trace))


def test_two_workers_are_judged_apart() -> None:
    """Each has its own counts."""
    trace = complete("worker-processes")
    second = [Seen(Process.WORKER, seen.name, 1) for seen in trace if seen.process is Process.WORKER]
    assert violations([*trace, *second]) == []
    assert violations([*trace, *second[:-1], second[0]]) != []
