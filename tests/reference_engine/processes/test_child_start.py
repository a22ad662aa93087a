"""Facts about what a child process is started with."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from platform_abc.config import EngineConfig
from platform_abc.timeline import Process
from reference_engine.processes.child_start import ChildStart, pickle_config


def test_a_config_that_does_not_pickle_names_the_path() -> None:
    """A lock or a lambda that a hook put there is told by its path."""
    config = EngineConfig()
    config.additional_config = {"a": {"fine": 1, "lock": threading.Lock()}}
    vars(config.parallel_config)["held"] = threading.Lock()
    where = r"parallel_config\.held, additional_config\.a\.lock does not pickle"
    with pytest.raises(TypeError, match=where):
        pickle_config(config)


def test_a_worker_inherits_what_its_engine_core_was_started_with(tmp_path: Path) -> None:
    """But for its place, its name, and what is the engine core's own."""
    core = ChildStart(
        process=Process.ENGINE_CORE,
        config=b"",
        report="{}",
        hook_seconds=3,
        folder=str(tmp_path),
        own_session=True,
    )
    worker = core.of_worker(b"config", 1, 0, "file:///ranks")
    assert (worker.name, worker.config, worker.init_method) == ("worker 1", b"config", "file:///ranks")
    assert (worker.hook_seconds, worker.report, worker.own_session) == (3, "{}", False)
    assert worker.stacks == tmp_path / "worker 1.stacks"


def test_a_machine_without_the_folder_has_no_place_for_stacks() -> None:
    """As a worker of Ray's on another one."""
    start = ChildStart(process=Process.WORKER, config=b"", report="{}", folder="/no/such/folder")
    assert start.stacks is None
