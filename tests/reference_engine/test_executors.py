"""Facts that hold in every executor: the same tokens, the timeline, and nothing left. Ray runs in some."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from platform_abc.errors import ConfigError
from platform_abc.hooks.watch import EngineFailed
from platform_abc.requests import SamplingParams
from platform_abc.timeline import Process
from platform_abc.timeline_trace import violations
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from tests.reference_engine.components import NotingWorker
from tests.reference_engine.test_failures import descendants, in_thread

pytestmark = pytest.mark.deep

Use = Callable[..., Any]
PROMPTS = [[1, 2, 3], [5, 6, 7, 8, 9, 10], [4], list(range(40))]
EIGHT = SamplingParams(max_tokens=8)


@pytest.fixture(autouse=True)
def leaves_nothing(use_platform: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No process is left, and no folder of Ray or of the engine."""
    sys.modules.pop("reference_model.custom_ops", None)
    processes = set(descendants())
    assert tmp_path.exists()  # pytest's own folder is made before, where it belongs
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        monkeypatch.undo()
        until = time.monotonic() + 5
        while set(descendants()) - processes and time.monotonic() < until:
            time.sleep(0.1)
        assert {pid: one for pid, one in descendants().items() if pid not in processes} == {}
        assert _agents_of(folder) == []
        assert list(Path(folder).iterdir()) == []


def _agents_of(folder: str) -> list[str]:
    """Return what of Ray runs still, wherever it belongs now: its commands or files name the folder."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            files = [str(one.readlink()) for one in (process / "fd").iterdir()]
            if int(process.name) != os.getpid() and any(folder in one for one in files):
                found.append((process / "cmdline").read_text())
    return found


def tokens_of(**args: Any) -> list[tuple[int, ...]]:
    with Engine(EngineArgs(dtype="float32", **args)) as engine:
        return [tuple(one.tokens) for one in engine.generate(PROMPTS, EIGHT)]


@pytest.mark.parametrize(
    ("executor", "workers"), [("processes", 1), ("processes", 2), ("ray", 1), ("ray", 2)]
)
def test_each_executor_generates_the_same_and_follows_the_timeline(
    use_platform: Use, executor: str, workers: int
) -> None:
    """Tensor parallel or not: the tokens of one process, and each hook in its place."""
    if executor == "ray":
        pytest.importorskip("ray")
    use_platform()
    expected = tokens_of()
    import platforms

    platforms.reset_current_platform()
    args = EngineArgs(dtype="float32", executor=executor, tensor_parallel_size=workers)
    with Engine(args, traced=True) as engine:
        results = engine.generate(PROMPTS, EIGHT)
        trace = engine.traces()
    assert [tuple(one.tokens) for one in results] == expected
    assert violations(trace, "worker-processes") == []
    assert sum(1 for one in trace if one.name == "update_block_size_for_backend") == workers
    assert {one.instance for one in trace if one.process is Process.WORKER} == set(range(workers))


@pytest.mark.parametrize("executor", ["in-process", "processes", "ray"])
def test_a_worker_may_free_its_device_wherever_it_lives(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executor: str
) -> None:
    """Its `shutdown` is called once when the engine is closed, on Ray too."""
    import platforms

    if executor == "ray":
        pytest.importorskip("ray")
    platforms.reset_current_platform()
    monkeypatch.setenv("TESTS_NOTES", str(tmp_path / "notes"))
    worker = f"{NotingWorker.__module__}.{NotingWorker.__qualname__}"
    with Engine(EngineArgs(dtype="float32", executor=executor, worker_cls=worker)) as engine:
        assert engine.generate([[1]], EIGHT)[0].tokens
        assert not (tmp_path / "notes").exists()
    assert (tmp_path / "notes").read_text() == "shutdown\n"


def test_threads_share_one_engine(use_platform: Use) -> None:
    """Their requests run in the same steps, and each gets its own."""
    use_platform()
    expected = tokens_of()
    found: dict[int, list[tuple[int, ...]]] = {}
    with Engine(EngineArgs(dtype="float32")) as engine:

        def ask(number: int) -> None:
            results = engine.generate([PROMPTS[number]] * 3, EIGHT)
            found[number] = [tuple(one.tokens) for one in results]

        threads = [in_thread(lambda number=number: ask(number)) for number in range(4)]
        for thread, raised in threads:
            thread.join(60)
            assert raised == []
    assert found == {number: [expected[number]] * 3 for number in range(4)}


def test_each_prompt_may_have_its_own_parameters(use_platform: Use) -> None:
    """As many as prompts; results are told as they come."""
    use_platform()
    told: list[str] = []
    with Engine(EngineArgs(dtype="float32")) as engine:
        params = [SamplingParams(max_tokens=most) for most in (5, 2)]
        results = engine.generate([[1], [2]], params, progress=lambda one: told.append(one.request_id))
        with pytest.raises(ValueError, match="one of params for each of the 2 prompts, got 1"):
            engine.generate([[1], [2]], params[:1])
        assert engine.generate([], params[:0]) == []
        wrong = engine.generate([[1], [2]], lora_ids=[0, 7])
    assert [len(one.tokens) for one in results] == [5, 2]
    assert told == [results[1].request_id, results[0].request_id]
    assert "wants the adapter 7, but the engine has none" in wrong[1].error
    assert wrong[0].tokens


def test_ray_is_refused_where_the_device_has_no_name_there(use_platform: Use) -> None:
    """Before anything is started; the device is named."""
    use_platform(ray_device_key="")
    with pytest.raises(
        ConfigError, match="cpu cannot be used with Ray, since ray_device_key of ChangedPlatform"
    ):
        Engine(EngineArgs(dtype="float32", executor="ray"))


def test_a_missing_ray_names_the_extra(use_platform: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    use_platform()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RuntimeError, match=r"needs Ray: pip install 'platform-abc\[ray\]'"):
        Engine(EngineArgs(dtype="float32", executor="ray"))


@pytest.mark.parametrize(
    ("key", "asked"),
    [
        ("CPU", {"num_cpus": 1}),
        ("GPU", {"num_cpus": 0, "num_gpus": 1}),
        ("TPU", {"num_cpus": 0, "resources": {"TPU": 1}}),
    ],
)
def test_a_worker_takes_one_device_of_ray(key: str, asked: dict[str, Any]) -> None:
    """And a processor only where that is the device."""
    from reference_engine import ray_executor

    assert ray_executor.resources_of(key) == asked


def test_variables_go_to_workers_on_other_machines(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's own, those that the platform names, the device variable, and what keeps Ray from choosing."""
    from reference_engine import ray_executor

    for name in ("PLATFORM_ABC_LOGGING_LEVEL", "CHIP_CACHE", "CHIP_OTHER", "CHIP_VISIBLE"):
        monkeypatch.setenv(name, "1")
    platform = use_platform(
        additional_env_vars=["CHIP_CACHE", "CHIP_UNSET"],
        device_control_env_var="CHIP_VISIBLE",
        ray_noset_device_env_vars=["RAY_EXPERIMENTAL_NOSET_CHIP"],
    )
    found = ray_executor.environment_of(platform)
    assert set(found) == {
        "PLATFORM_ABC_LOGGING_LEVEL",
        "PLATFORM_ABC_TARGET_DEVICE",
        "CHIP_CACHE",
        "CHIP_VISIBLE",
        "RAY_EXPERIMENTAL_NOSET_CHIP",
        "PYTHONPATH",
    }


def test_workers_of_a_node_see_all_its_devices(use_platform: Use) -> None:
    """So that the local rank chooses; a device that Ray does not number leaves the variable alone."""
    from reference_engine import ray_executor

    platform = use_platform(device_control_env_var="CHIP_VISIBLE")
    places = [
        ray_executor.Place("a", devices=["2"]),
        ray_executor.Place("a", devices=["0"]),
        ray_executor.Place("b", devices=["1"]),
    ]
    assert ray_executor.visible_on(platform, places, "a") == {"CHIP_VISIBLE": "2,0"}
    assert ray_executor.visible_on(platform, places, "b") == {"CHIP_VISIBLE": "1"}
    assert ray_executor.visible_on(platform, [ray_executor.Place("a")], "a") == {}


@pytest.mark.parametrize("which", ["engine core", "worker"])
def test_a_killed_process_ends_an_engine_on_ray(use_platform: Use, which: str) -> None:
    """Its error names the process, and Ray goes with the engine."""
    pytest.importorskip("ray")
    import platforms

    platforms.reset_current_platform()
    before = set(descendants())
    args = EngineArgs(dtype="float32", executor="ray", max_model_len=1000)
    engine = Engine(args)
    thread, raised = in_thread(lambda: engine.generate([[1]], SamplingParams(max_tokens=990)))
    time.sleep(0.5)
    new = {pid: command for pid, command in descendants().items() if pid not in before}
    worker = next(pid for pid, command in new.items() if "_Actor" in command)
    os.kill(min(new) if which == "engine core" else worker, signal.SIGKILL)
    thread.join(10)
    assert isinstance(raised[0], EngineFailed)
    assert f"the {which} process ended" in str(raised[0])


def test_a_ray_of_the_user_stays(use_platform: Use) -> None:
    """The engine uses the cluster that its process is connected to, and leaves it as it was."""
    ray = pytest.importorskip("ray")
    import platforms

    platforms.reset_current_platform()
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder, contextlib.ExitStack() as stack:
        ray.init(address="local", num_cpus=2, include_dashboard=False, _temp_dir=folder, log_to_driver=False)
        stack.callback(ray.shutdown)
        args = EngineArgs(dtype="float32", executor="ray")
        with Engine(args) as engine:
            assert engine.generate([[1]], EIGHT)[0].tokens
        assert ray.is_initialized()
        too_many = EngineArgs(dtype="float32", executor="ray", tensor_parallel_size=4, num_kv_heads=4)
        with pytest.raises(
            EngineFailed, match="world_size = 4: expected at most 2, the CPU of the Ray cluster"
        ):
            Engine(too_many)
