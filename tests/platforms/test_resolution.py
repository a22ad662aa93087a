"""Whole processes: plugins as installed distributions, threads, and the import lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.platform_abc.fake_distributions import (
    CPU_TORCH,
    STRUCTURAL_PLATFORM,
    distribution,
    fresh,
    platform_plugin,
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a CPU build of torch, by its metadata."""
    distribution(tmp_path, "torch", CPU_TORCH)
    return tmp_path


def test_threads_that_read_first_at_once_get_one_object(site: Path) -> None:
    """Through the module, as an engine reads it."""
    platform_plugin(site, "npu", "import time\ndef register(): time.sleep(0.1)\n")
    code = """
        import threading
        barrier, seen = threading.Barrier(8), []
        def read():
            barrier.wait()
            from platforms import current_platform
            seen.append(current_platform)
        threads = [threading.Thread(target=read) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print(len(seen), len(set(map(id, seen))))
    """
    assert fresh(site, code).stdout.split() == ["8", "1"]


def test_the_import_lock_and_the_resolution_lock_cannot_hang_each_other(site: Path) -> None:
    """One thread resolves and imports a module; the other imports that module, which reads the platform.

    Each waits for the other. The read ends with an error that names both threads, and the resolution
    goes on, with whatever the import system gives the first thread for the failed module.
    """
    (site / "shared_module.py").write_text(
        "import events\nevents.importing.set()\nevents.resolving.wait(20)\n"
        "from platforms import current_platform\n"
    )
    (site / "events.py").write_text(
        "import threading\nimporting, resolving = threading.Event(), threading.Event()\n"
    )
    platform_plugin(
        site,
        "npu",
        "import events\ndef register():\n    events.importing.wait(20); events.resolving.set()\n    import shared_module\n",
    )
    code = """
        import json, threading, platforms
        told = {}
        def importer():
            try:
                import shared_module
            except Exception as error:
                told["importer"] = f"{type(error).__name__}: {error}"
        thread = threading.Thread(target=importer, name="the-importer")
        thread.start()
        import events; events.importing.wait(20)
        report = platforms.resolution_report()
        thread.join(30)
        told["chosen"] = report.chosen
        print(json.dumps(told))
    """
    ended = fresh(site, code, PLATFORM_ABC_RESOLUTION_TIMEOUT="1")
    told = json.loads(ended.stdout)
    assert told["importer"].startswith("ResolutionError: ")
    for part in ("'the-importer'", "'MainThread'", "asking detector npu (npu-dist 1.0)", "waited 1 s"):
        assert part in told["importer"]
    assert told["chosen"].startswith("platforms.")


def test_a_detector_that_reads_the_platform_is_named_with_the_reason(site: Path) -> None:
    """A warning at the default level, and the CPU is used."""
    platform_plugin(
        site, "npu", "def register():\n    from platforms import current_platform\n    return 'a.B'\n"
    )
    ended = fresh(site, "from platforms import current_platform as p; print(p.device_type)")
    assert ended.stdout.strip() == "cpu"
    assert "npu (npu-dist 1.0) failed during detection" in ended.stderr
    assert "current_platform is read while it is being resolved" in ended.stderr


def test_the_default_log_level_shows_a_failing_plugin(site: Path) -> None:
    """With its distribution, the reason and the command that shows the traceback."""
    platform_plugin(site, "npu", "def register(): raise OSError('no npu')\n", version="7.0")
    ended = fresh(site, "import platforms; platforms.current_platform")
    assert "npu (npu-dist 7.0)" in ended.stderr
    assert "OSError: no npu" in ended.stderr
    assert "python -m platform_abc" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_log_level_variable_shows_the_traceback(site: Path) -> None:
    """Although the application has set up no logging."""
    platform_plugin(site, "npu", "def register(): raise OSError('no npu')\n")
    ended = fresh(site, "import platforms; platforms.current_platform", PLATFORM_ABC_LOGGING_LEVEL="debug")
    assert "Traceback" in ended.stderr
    assert "detected platform cpu" in ended.stderr


def test_an_out_of_tree_platform_is_announced(site: Path) -> None:
    """At INFO level."""
    platform_plugin(site, "npu", "def register(): return 'npu_platform.P'\n")
    (site / "npu_platform.py").write_text(STRUCTURAL_PLATFORM.format(name="P"))
    ended = fresh(site, "import platforms; platforms.current_platform", PLATFORM_ABC_LOGGING_LEVEL="INFO")
    assert "platform plugin npu (npu-dist 1.0) is activated: npu_platform.P" in ended.stderr


def test_a_plugin_that_subclasses_ours_can_be_imported_first(site: Path) -> None:
    """Neither order of imports resolves too early, and the plugin wins in both."""
    platform_plugin(
        site,
        "npu",
        """
        import platforms.cpu
        class NpuPlatform(platforms.cpu.CpuPlatform):
            device_name = "npu"
        def register():
            return "npu_plugin.NpuPlatform"
        """,
    )
    for statements in ("import npu_plugin, platforms", "import platforms, npu_plugin"):
        ended = fresh(site, f"{statements}\nprint(platforms.current_platform.device_name)")
        assert ended.stdout.strip() == "npu", ended.stderr


def test_a_forgotten_member_is_a_resolution_error(site: Path) -> None:
    """The class is refused where it is defined, and the text says which member is missing."""
    platform_plugin(site, "npu", "def register(): return 'npu_platform.Half'\n")
    (site / "npu_platform.py").write_text(
        "from platform_abc.platform import Platform\nclass Half(Platform):\n    device_type = 'cpu'\n"
    )
    ended = fresh(site, "import platforms; platforms.current_platform")
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert "ResolutionError: detector npu (npu-dist 1.0) chose" in last
    assert "device_name" in last


def test_a_forced_cpu_imports_no_plugin(site: Path) -> None:
    """Also where a plugin would crash the process."""
    platform_plugin(site, "npu", "import os\nos._exit(3)\n")
    code = "import platforms; print(type(platforms.current_platform).__name__)"
    ended = fresh(site, code, PLATFORM_ABC_TARGET_DEVICE="cpu")
    assert ended.stdout.strip().endswith("CpuPlatform")


def test_worker_processes_resolve_for_themselves(site: Path) -> None:
    """With spawn, the worker's report compares with the front end's; a changed variable is named."""
    platform_plugin(site, "npu", "def register(): return 'npu_platform.P'\n")
    (site / "npu_platform.py").write_text(STRUCTURAL_PLATFORM.format(name="P"))
    (site / "engine.py").write_text(
        """
import multiprocessing, os
def worker(front_end, connection):
    import platforms
    from platform_abc.resolution_report import ResolutionReport, require_same_platform
    try:
        require_same_platform(ResolutionReport.from_json(front_end), platforms.resolution_report())
        connection.send("the same")
    except RuntimeError as error:
        connection.send(str(error))
def ask(**variables):
    import platforms
    ours, theirs = multiprocessing.Pipe()
    front_end = platforms.resolution_report().to_json()
    os.environ.update(variables)
    process = multiprocessing.get_context("spawn").Process(target=worker, args=(front_end, theirs))
    process.start()
    print(ours.recv())
    process.join()
if __name__ == "__main__":
    ask()
    ask(PLATFORM_ABC_PLUGINS="")
"""
    )
    ended = fresh(site, "import runpy; runpy.run_path('engine.py', run_name='__main__')")
    same, other = ended.stdout.splitlines()
    assert same == "the same"
    assert "the front end runs on npu_platform.P but the worker resolved platforms." in other
    assert "variable PLATFORM_ABC_PLUGINS is unset in the front end, '' in the worker" in other
