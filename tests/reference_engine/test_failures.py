"""Facts about an engine that fails: it ends soon, says which process and hook it was, and leaves nothing."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from platform_abc.hooks.watch import EngineFailed, HookHung
from platform_abc.requests import SamplingParams
from platforms.components.worker import DeviceWorker
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from tests.reference_engine import failing

Use = Callable[..., Any]
PROMPTS = [[1, 2, 3], [4]]
LONG = SamplingParams(max_tokens=200)


def descendants() -> dict[int, str]:
    """Return the processes below this one and their commands; multiprocessing's own tracker is no engine's."""
    found: dict[int, str] = {}
    for line in subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        pid, parent, state, *args = line.split(None, 3)
        if (int(parent) == os.getpid() or int(parent) in found) and not state.startswith("Z"):
            if "resource_tracker" not in args[0] and not args[0].startswith("ps "):
                found[int(pid)] = args[0]
    return found


@pytest.fixture(autouse=True)
def leaves_nothing(use_platform: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No process, shared memory or temporary folder is left, whatever the test did to the engine."""
    sys.modules.pop("reference_model.custom_ops", None)
    before, processes = shared_memory(), descendants()
    # A folder of its own, since other tests may run beside this one; short, for the sake of sockets in it.
    assert tmp_path.exists()  # pytest's own folder is made before, where it belongs
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        monkeypatch.undo()
        left = {pid: command for pid, command in descendants().items() if pid not in processes}
        assert left == {}
        assert list(Path(folder).iterdir()) == []
        assert shared_memory() <= before


def shared_memory() -> set[str]:
    """Return what is shared now, but for memory and locks of Python's own module, which no engine uses."""
    folder = Path("/dev/shm")
    return {one.name for one in folder.glob("*") if not one.name.startswith(("psm_", "sem.mp-"))}


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Return a function that spoils a hook in one process of the next engine."""
    import platforms

    platforms.reset_current_platform()
    failing.install(tmp_path)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TESTS_FRONT_END", str(os.getpid()))
    monkeypatch.delenv("PLATFORM_ABC_PLUGINS", raising=False)

    def spoil(hook: str, how: str, process: str) -> None:
        monkeypatch.setenv(failing.VARIABLE, json.dumps({"hook": hook, "how": how, "process": process}))

    return spoil


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Run something in a thread; the thread, and what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


@pytest.mark.deep
@pytest.mark.parametrize(
    ("hook", "how", "process"),
    [
        ("register_triton_kernel_overrides", "raise", "worker 1"),
        ("verify_model_arch", "hang", "worker"),
        ("register_custom_kv_cache_specs", "hang", "engine core"),
        ("get_attn_backend_cls", "nonsense", "worker"),
    ],
)
def test_a_hook_that_fails_in_another_process_ends_the_start(
    spoiled: Callable[..., None], hook: str, how: str, process: str
) -> None:
    """The error names the process and the hook; a hang is told within its time."""
    spoiled(hook, how, process)
    args = EngineArgs(
        dtype="float32",
        executor="processes",
        tensor_parallel_size=2 if process == "worker 1" else 1,
        hook_timeout=2,
    )
    with pytest.raises(EngineFailed) as caught:
        Engine(args)
    assert f"the {process} process" in str(caught.value)
    assert hook in str(caught.value)
    assert "CpuPlatform" in str(caught.value)


WAYS = ("raise", "hang", "keep", "crash", "nonsense", "kill", "stop", "interrupt", "unusual")
QUICK = ("keep",)


@pytest.mark.parametrize(
    ("executor", "how"),
    [
        *(("processes", how) for how in QUICK),
        *(pytest.param("processes", how, marks=pytest.mark.deep) for how in WAYS if how not in QUICK),
        *(pytest.param("ray", how, marks=pytest.mark.deep) for how in WAYS[:-2]),
    ],
)
def test_a_hook_that_fails_in_a_step_ends_the_engine_for_all_who_wait(
    spoiled: Callable[..., None], executor: str, how: str
) -> None:
    """Two threads wait, both get the error; a later call gets it too."""
    if executor == "ray":
        pytest.importorskip("ray")
    spoiled("set_additional_forward_context", "late " + how, "worker")
    engine = Engine(EngineArgs(dtype="float32", executor=executor, hook_timeout=2))
    other, raised = in_thread(lambda: engine.generate(PROMPTS, LONG))
    start = time.monotonic()
    with pytest.raises(EngineFailed) as caught:
        engine.generate(PROMPTS, LONG)
    other.join(10)
    assert time.monotonic() - start < 10
    for error in (caught.value, *raised):
        assert "the worker process" in str(error)
        assert "set_additional_forward_context" in str(error) or how in ("kill", "stop")
    assert len(raised) == 1
    with pytest.raises(EngineFailed, match="the worker process"):
        engine.generate(PROMPTS)


@pytest.mark.parametrize(
    "which", ["worker", *(pytest.param(one, marks=pytest.mark.deep) for one in ("engine core", "worker 1"))]
)
def test_a_killed_process_ends_the_engine(which: str) -> None:
    """Whoever waits gets an error that names the process, at once."""
    import platforms

    platforms.reset_current_platform()
    engine = Engine(
        EngineArgs(
            dtype="float32",
            executor="processes",
            tensor_parallel_size=2 if which == "worker 1" else 1,
            max_model_len=1500,
            num_gpu_blocks_override=200,
        )
    )
    other, raised = in_thread(lambda: engine.generate(PROMPTS, SamplingParams(max_tokens=1400)))
    time.sleep(0.5)
    os.kill(_pid_of(which), signal.SIGKILL)
    other.join(10)
    assert len(raised) == 1
    assert isinstance(raised[0], EngineFailed)
    assert f"the {which} process ended on signal 9" in str(raised[0])


def _pid_of(process: str) -> int:
    """Find a process of the engine: the core is our child, the workers are its children, in order of rank."""
    core = min(descendants())
    workers = sorted(set(descendants()) - {core})
    return {"engine core": core, "worker": workers[0], "worker 1": workers[-1]}[process]


def test_a_hook_that_hangs_in_the_front_end_is_interrupted(use_platform: Use) -> None:
    """In the main thread, as by Ctrl-C: also where it waits. The handler of signals stays the user's."""

    def hangs(_cls: type, config: object) -> None:
        time.sleep(60)

    use_platform(check_and_update_config=hangs)
    start, handler = time.monotonic(), signal.getsignal(signal.SIGINT)
    with pytest.raises(HookHung) as caught:
        Engine(EngineArgs(dtype="float32", hook_timeout=1))
    assert time.monotonic() - start < 5
    assert "the front end process hangs: hook check_and_update_config of ChangedPlatform" in str(caught.value)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_hook_that_hangs_in_a_thread_lets_all_go(use_platform: Use) -> None:
    """The thread that called it too, although nothing interrupts native code that waits there."""
    entered, leave = threading.Event(), threading.Event()

    def hangs(_cls: type, **facts: object) -> dict[str, object]:
        if entered.is_set():
            leave.wait(60)
        return {}

    use_platform(set_additional_forward_context=hangs)
    engine = Engine(EngineArgs(dtype="float32", hook_timeout=1))
    entered.set()
    threads = [in_thread(lambda: engine.generate(PROMPTS, LONG)) for _ in range(3)]
    time.sleep(2.5)
    assert [thread.is_alive() for thread, _ in threads] == [False] * 3
    leave.set()
    for _, raised in threads:
        assert "hook set_additional_forward_context of ChangedPlatform" in str(raised[0])
    with pytest.raises(EngineFailed, match="set_additional_forward_context"):
        engine.generate(PROMPTS)


class Mute(BaseException):
    """Neither an `Exception`, nor able to say what it is."""

    def __str__(self) -> str:
        raise SystemExit(9)


def test_whatever_a_hook_raises_names_it(use_platform: Use) -> None:
    """At the start and in a step; in `validate_request` it refuses one request."""

    def fails(_cls: type, *args: Any, **facts: Any) -> Any:
        raise Mute

    use_platform(check_and_update_config=fails)
    with pytest.raises(EngineFailed, match="hook check_and_update_config of ChangedPlatform raised Mute"):
        Engine(EngineArgs(dtype="float32"))
    use_platform(set_additional_forward_context=fails)
    with pytest.raises(
        EngineFailed, match="hook set_additional_forward_context of ChangedPlatform raised Mute"
    ):
        Engine(EngineArgs(dtype="float32"))
    use_platform(validate_request=fails)
    with Engine(EngineArgs(dtype="float32")) as engine:
        (result,) = engine.generate([[1]])
    assert "hook validate_request of ChangedPlatform raised Mute" in result.error


def test_an_exception_that_cannot_say_what_it_is_reaches_all_who_wait(use_platform: Use) -> None:
    """The thread that met it gets it as it is, the others its kind and the hook."""

    class Shy(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    entered = threading.Event()

    def fails(_cls: type, **facts: Any) -> dict[str, object]:
        if entered.is_set():
            time.sleep(0.3)
            raise Shy
        return {}

    use_platform(set_additional_forward_context=fails)
    engine = Engine(EngineArgs(dtype="float32"))
    entered.set()
    threads = [in_thread(lambda: engine.generate(PROMPTS, LONG)) for _ in range(2)]
    for thread, _ in threads:
        thread.join(10)
    errors = sorted((raised[0] for _, raised in threads), key=lambda error: type(error).__name__)
    assert type(errors[1]) is Shy
    assert "raised in hook set_additional_forward_context of ChangedPlatform" in str(errors[0])


def test_a_hook_of_the_parser_that_hangs_or_leaves_is_named(
    use_platform: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no engine yet, and it ends in time all the same."""
    from reference_engine import args

    monkeypatch.setattr(args, "HOOK_SECONDS", 0.5)
    for work, text in (
        (lambda: time.sleep(60), "did not return within 0.5 s"),
        (sys.exit, "raised SystemExit"),
    ):
        use_platform(pre_register_and_update=lambda _cls, parser=None, work=work: work())
        with pytest.raises(EngineFailed) as caught:
            args.add_cli_args(argparse.ArgumentParser())
        assert "hook pre_register_and_update of ChangedPlatform" in str(caught.value)
        assert text in str(caught.value)


def test_a_validate_request_that_raises_anything_refuses_its_request_alone(use_platform: Use) -> None:
    """Also at a later call, after others went well."""
    calls: list[int] = []

    def validate(_cls: type, inputs: Any, params: Any) -> None:
        calls.append(1)
        if len(calls) in (2, 5):
            raise KeyError("seeded") if len(calls) == 2 else TypeError("late")

    use_platform(validate_request=validate)
    with Engine(EngineArgs(dtype="float32")) as engine:
        first = engine.generate([[1], [2], [3]], SamplingParams(max_tokens=2))
        second = engine.generate([[1], [2], [3]], SamplingParams(max_tokens=2))
    assert [bool(one.tokens) for one in (*first, *second)] == [True, False, True, True, False, True]
    assert "hook validate_request of ChangedPlatform raised KeyError" in first[1].error
    assert "TypeError: late" in second[1].error


class NeverEnds(DeviceWorker):
    """A worker whose end takes for ever."""

    def shutdown(self) -> None:
        time.sleep(60)


@pytest.mark.deep
@pytest.mark.parametrize("executor", ["in-process", "processes"])
def test_a_worker_that_never_ends_does_not_keep_the_engine(
    monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    """Its process is killed; where it has none of its own, the user is told where it was."""
    import platforms

    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    platforms.reset_current_platform()
    engine = Engine(EngineArgs(dtype="float32", executor=executor, worker_cls=f"{__name__}.NeverEnds"))
    start = time.monotonic()
    if executor == "processes":
        engine.close()
    else:
        with pytest.raises(HookHung, match="(?s)no end within 9 s.*in shutdown"):
            engine.close()
    assert time.monotonic() - start < 10
    with pytest.raises(EngineFailed):
        engine.generate(PROMPTS)


@pytest.mark.deep
@pytest.mark.parametrize("executor", ["in-process", "processes"])
def test_a_fork_of_the_front_end_cannot_use_or_end_the_engine(
    monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    """It is told so, its end says nothing, and the engine goes on where it was made."""
    script = f"""
import os, sys
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
from platform_abc.requests import SamplingParams
if __name__ == "__main__":
    engine = Engine(EngineArgs(dtype="float32", executor={executor!r}))
    child = os.fork()
    if not child:
        try:
            engine.generate([[1]])
        except RuntimeError as error:
            print(error, flush=True)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    print(len(engine.generate([[1]], SamplingParams(max_tokens=3))[0].tokens))
    engine.close()
"""
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    file = Path(tempfile.gettempdir()) / "forks.py"
    file.write_text(script)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    file.unlink()
    assert done.stdout.splitlines() == [
        "this is a fork of the process whose engine it is: make an engine after the fork",
        "3",
    ], done.stderr
    # What is told at the end of a fork is the standard library's own complaint, if any.
    assert done.returncode == 0
    assert "reference_engine" not in done.stderr


@pytest.mark.deep
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_a_worker_that_is_stopped_ends_with_a_front_end_that_was_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It cannot see that its parent is gone, so its parent ends it."""
    script = """
import sys
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine
if __name__ == "__main__":
    engine = Engine(EngineArgs(dtype="float32", executor="processes"))
    print("started", flush=True)
    sys.stdin.read()
"""
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    file = Path(tempfile.gettempdir()) / "waits.py"
    file.write_text(script)
    front = subprocess.Popen(
        [sys.executable, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert front.stdout is not None
    assert front.stdout.readline() == "started\n"
    engine = set(descendants()) - {front.pid}
    os.kill(max(engine), signal.SIGSTOP)
    front.kill()
    front.communicate()
    file.unlink()
    until = time.monotonic() + 15
    while (left := [pid for pid in engine if _runs(pid)]) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []


def _runs(pid: int) -> bool:
    """Say whether a process exists; one that waits to be collected has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_closed_engine_says_so(use_platform: Use) -> None:
    """A call after `close` is told what happened; closing twice is nothing."""
    engine = Engine(EngineArgs(dtype="float32"))
    engine.close()
    engine.close()
    with pytest.raises(EngineFailed, match="the engine is closed"):
        engine.generate(PROMPTS)
