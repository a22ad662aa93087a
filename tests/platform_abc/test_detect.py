"""`python -m platform_abc`: the report on standard output, a failure as one line and a status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platform_abc import detect
from platform_abc.__main__ import main
from tests.platform_abc.fake_distributions import (
    CPU_TORCH,
    STRUCTURAL_PLATFORM,
    distribution,
    platform_plugin,
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a CPU build of torch, by its metadata."""
    distribution(tmp_path, "torch", CPU_TORCH)
    return tmp_path


def command(
    site: Path, *arguments: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PLATFORM_ABC_", "JAX_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "platform_abc", *arguments],
        env={**clean, "PYTHONPATH": str(site), **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=cwd or site,
    )


def one_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


def test_the_report_is_printed(site: Path) -> None:
    """What was chosen, each detector with its reason, the packages that decide."""
    ended = command(site)
    assert ended.returncode == 0
    assert ended.stdout.startswith("platform of platform-abc: platforms.cpu.CpuPlatform\n")
    for part in ("tpu", "cuda", "rocm", "xpu", f"torch {CPU_TORCH} is a build for cpu", "platform-abc"):
        assert part in ended.stdout
    assert ended.stderr == ""


def test_json_is_an_object_alone(site: Path) -> None:
    """Also when a plugin prints: that goes to standard error."""
    platform_plugin(site, "npu", "import os\nprint('hello')\ndef register():\n    os.write(1, b'raw\\n')\n")
    ended = command(site, "--json")
    data = json.loads(ended.stdout)
    assert data["chosen"] == "platforms.cpu.CpuPlatform"
    assert [each["name"] for each in data["detectors"]] == ["tpu", "cuda", "rocm", "xpu", "cpu", "npu"]
    assert "hello" in ended.stderr
    assert "raw" in ended.stderr


def test_a_failing_plugin_shows_its_traceback(site: Path) -> None:
    """Without any option; with its distribution."""
    platform_plugin(
        site, "npu", "def register():\n    return probe_it()\ndef probe_it():\n    raise OSError('no npu')\n"
    )
    ended = command(site)
    assert ended.returncode == 0
    assert "npu (npu-dist 1.0)" in ended.stdout
    assert "in probe_it" in ended.stdout
    assert "OSError: no npu" in ended.stdout


def test_a_plugin_that_cannot_be_imported_shows_its_traceback(site: Path) -> None:
    """As one whose detector raises."""
    platform_plugin(site, "npu", "import sdk_that_is_not_there\n")
    ended = command(site)
    assert "No module named 'sdk_that_is_not_there'" in ended.stdout
    assert "Traceback" in ended.stdout


def test_two_active_plugins_end_with_status_one_and_one_line(site: Path) -> None:
    """The report is printed all the same."""
    for name in ("zeta", "alpha"):
        platform_plugin(site, name, "def register():\n    return 'a.B'\n")
    ended = command(site)
    assert ended.returncode == 1
    line = one_line(ended.stderr)
    assert "alpha (alpha-dist 1.0), zeta (zeta-dist 1.0)" in line
    assert "active: a.B" in ended.stdout


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
            "died on signal 11 (SIGSEGV) while importing plugin",
        ),
        ("import os\nos._exit(0)\n", "exited with status 0 without an answer while importing plugin"),
        (
            "import os\ndef register():\n    os._exit(7)\n",
            "exited with status 7 without an answer while asking detector",
        ),
        (
            "import os, signal\ndef register():\n    os.kill(os.getpid(), signal.SIGABRT)\n",
            "died on signal 6 (SIGABRT) while asking detector",
        ),
    ],
)
def test_a_plugin_that_ends_the_process_is_named(site: Path, source: str, told: str) -> None:
    """In the report and in the one line; no traceback of ours."""
    platform_plugin(site, "npu", source)
    ended = command(site)
    assert ended.returncode == 1
    assert f"{told} npu (npu-dist 1.0)" in one_line(ended.stderr)
    assert "Traceback" not in ended.stderr
    assert told in json.loads(command(site, "--json").stdout)["error"]


def test_a_plugin_that_hangs_is_named_after_the_time_limit(site: Path) -> None:
    """And what it started is ended with it."""
    platform_plugin(
        site,
        "npu",
        """
        import subprocess, sys, time, pathlib
        def register():
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            pathlib.Path("child.pid").write_text(str(child.pid))
            time.sleep(60)
        """,
    )
    started = time.monotonic()
    ended = command(site, "--timeout", "6")
    assert time.monotonic() - started < 30
    assert ended.returncode == 1
    assert "did not end within 6 s while asking detector npu (npu-dist 1.0)" in one_line(ended.stderr)
    pid = int((site / "child.pid").read_text())
    for _ in range(100):
        if not _alive(pid):
            return
        time.sleep(0.05)
    pytest.fail("the plugin's own child is still there")


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_thread_left_running_does_not_keep_the_command(site: Path) -> None:
    """The report is there, so the process ends."""
    platform_plugin(
        site,
        "npu",
        "import threading, time\ndef register():\n    threading.Thread(target=time.sleep, args=(60,)).start()\n",
    )
    started = time.monotonic()
    assert command(site).returncode == 0
    assert time.monotonic() - started < 30


def test_a_platform_that_exits_while_imported_is_an_error(site: Path) -> None:
    """`sys.exit` in the platform's module is told as such."""
    platform_plugin(site, "npu", "def register():\n    return 'npu_platform.P'\n")
    (site / "npu_platform.py").write_text("import sys\nsys.exit(0)\n")
    ended = command(site)
    assert ended.returncode == 1
    assert "detector npu (npu-dist 1.0) chose a platform that cannot be imported" in one_line(ended.stderr)


def test_an_out_of_tree_platform_is_shown_as_the_winner(site: Path) -> None:
    """With the distribution that brought it."""
    platform_plugin(site, "npu", "def register():\n    return 'npu_platform.P'\n", version="5.6")
    (site / "npu_platform.py").write_text(STRUCTURAL_PLATFORM.format(name="P"))
    ended = command(site)
    assert ended.returncode == 0
    assert "platform of platform-abc: npu_platform.P" in ended.stdout
    assert "npu (npu-dist 5.6) is active, which wins over the built-in cpu" in ended.stdout


def test_a_wrong_target_is_one_line(site: Path) -> None:
    """With the variable, its value and what it may be."""
    ended = command(site, PLATFORM_ABC_TARGET_DEVICE="gpu")
    assert ended.returncode == 1
    assert "PLATFORM_ABC_TARGET_DEVICE='gpu'" in one_line(ended.stderr)


def test_an_unknown_variable_stands_among_the_warnings(site: Path) -> None:
    """A misspelt one is not noticed otherwise."""
    assert "did you mean PLATFORM_ABC_PLUGINS?" in command(site, PLATFORM_ABC_PLUGIN="x").stdout


def test_tracebacks_of_builtin_detectors_and_the_first_read_are_shown_on_request(site: Path) -> None:
    """A device library that is installed and broken."""
    (site / "libtpu.py").write_text("raise OSError('old')\n")
    assert "libtpu cannot be imported (OSError: old)" in command(site, "--traceback").stdout


def test_without_torch_it_says_so(tmp_path: Path) -> None:
    """No detector answers, and the warning names torch; simulated by metadata that lacks it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m\nreal = m.distribution\n"
        "def distribution(name):\n    if name == 'torch': raise m.PackageNotFoundError(name)\n    return real(name)\n"
        "m.distribution = distribution\n"
    )
    ended = command(tmp_path)
    assert ended.returncode == 0
    assert "platforms.unspecified.UnspecifiedPlatform" in ended.stdout
    assert "tpu, cuda, rocm, xpu, cpu (torch is not installed (pip install torch))" in ended.stdout


def test_a_file_platforms_py_beside_the_run_is_told_in_one_line(site: Path, tmp_path: Path) -> None:
    """It is left out of the child's path, so the report is about our package."""
    beside = tmp_path / "repository"
    beside.mkdir()
    (beside / "platforms.py").write_text("raise RuntimeError('wrong module')\n")
    ended = command(site, cwd=beside)
    assert ended.returncode == 0
    assert "platforms.cpu.CpuPlatform" in ended.stdout
    assert str(beside / "platforms.py") in one_line(ended.stderr)


@pytest.mark.parametrize(
    "name", ["platform.py", "json.py", "attrs.py", "tempfile/__init__.py", "argparse.py"]
)
def test_a_file_with_the_name_of_a_module_that_we_need_is_told_in_one_line(
    site: Path, tmp_path: Path, name: str
) -> None:
    """`python -m` would import it in place of the library; it is left out before that."""
    beside = tmp_path / "repository"
    file = beside / name
    file.parent.mkdir(parents=True)
    file.write_text("raise RuntimeError('wrong module')\n")
    (beside / "ordinary.py").write_text("")
    (beside / "socketserver").mkdir()  # a folder that is no package hides nothing
    ended = command(site, cwd=beside)
    assert ended.returncode == 0
    assert "platforms.cpu.CpuPlatform" in ended.stdout
    line = one_line(ended.stderr)
    assert str(beside / name.split("/")[0]) in line
    assert "ordinary" not in line


def test_a_file_platforms_py_that_the_path_names_is_the_error(site: Path) -> None:
    """Asked for explicitly, it is not left out; the line says which file it is and what to do."""
    (site / "platforms.py").write_text("")
    ended = command(site, cwd=site.parent)
    assert ended.returncode == 1
    line = one_line(ended.stderr)
    assert f"{site / 'platforms.py'} hides the package platforms of platform-abc" in line
    assert "PYTHONPATH" in line


def test_entries_of_the_path_that_are_no_strings_are_left_out(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the import system does; users append `Path` objects."""
    monkeypatch.setattr(sys, "path", [*sys.path, site, b"bytes", None])
    assert detect.run_detect() in (0, 1)
    assert "platform of platform-abc" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("redirection", "told"),
    [
        (">&-", "it is closed"),
        (">/dev/full", "No space left on device"),
        (">&- 2>&-", ""),
        ("<&- >&- 2>&-", ""),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_takes_nothing_is_one_line_and_status_one(
    site: Path, redirection: str, told: str
) -> None:
    """Closed or full; a closed standard error takes not even that line."""
    ended = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m platform_abc {redirection}"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 1
    if told:
        assert "the report cannot be written to standard output: " in one_line(ended.stderr)
        assert told in ended.stderr
    else:
        assert ended.stderr == ""


def test_a_plugin_that_closes_the_outputs_spoils_nothing(site: Path) -> None:
    """Nor one that replaces them."""
    for name, body in (("closing", "sys.stdout.close()"), ("replacing", "sys.stdout = sys.stderr = None")):
        platform_plugin(site, name, f"import sys\ndef register():\n    {body}\n")
    ended = command(site)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_plugin_that_raises_an_interrupt_is_one_line(site: Path) -> None:
    """No traceback on standard error; the report has it."""
    platform_plugin(site, "npu", "def register():\n    raise KeyboardInterrupt\n")
    ended = command(site)
    assert ended.returncode == 1
    assert "KeyboardInterrupt was raised while asking detector npu (npu-dist 1.0)" in one_line(ended.stderr)
    assert "in register" in ended.stdout


def test_a_plugin_cannot_send_sequences_to_the_terminal(site: Path) -> None:
    """They are shown escaped, in the traceback too."""
    platform_plugin(site, "npu", "def register(): raise OSError('\\x1b[2J' + chr(7))\n")
    ended = command(site)
    assert "OSError: \\x1b[2J\\x07" in ended.stdout
    assert "\x1b" not in ended.stdout
    assert "\x07" not in ended.stdout


def test_sigterm_ends_the_child_too(site: Path) -> None:
    """As `timeout` sends it to a command whose plugin hangs."""
    platform_plugin(
        site,
        "npu",
        "import os, pathlib, time\ndef register():\n"
        "    pathlib.Path('new').write_text(str(os.getpid())); os.rename('new', 'child.pid'); time.sleep(60)\n",
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PLATFORM_ABC_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "platform_abc"],
        env={**clean, "PYTHONPATH": str(site)},
        stdout=subprocess.DEVNULL,
        cwd=site,
    )
    for _ in range(600):
        if (site / "child.pid").exists():
            break
        time.sleep(0.05)
    process.terminate()
    assert process.wait(20) == 143
    assert not _alive(int((site / "child.pid").read_text()))


def test_a_plugin_that_ends_the_process_can_be_left_out(site: Path) -> None:
    """The line says how to see the rest, and that works."""
    platform_plugin(site, "npu", "import os\nos._exit(0)\n")
    assert "leave it out of PLATFORM_ABC_PLUGINS" in one_line(command(site).stderr)
    assert command(site, PLATFORM_ABC_PLUGINS="").returncode == 0


def test_an_engine_that_is_not_installed_is_one_line(site: Path) -> None:
    """Status 4, with what to install."""
    (site / "vllm.py").write_text("raise ModuleNotFoundError(\"No module named 'vllm'\", name='vllm')\n")
    ended = command(site, "--engine", "vllm")
    assert ended.returncode == 4
    assert one_line(ended.stderr) == "platform-abc: vllm is not installed here (pip install vllm)"
    assert ended.stdout == ""


def test_an_engine_that_does_not_import_is_one_line(site: Path) -> None:
    """Its own error is the answer."""
    (site / "vllm").mkdir()
    (site / "vllm" / "__init__.py").write_text("raise OSError('undefined symbol')\n")
    ended = command(site, "--engine", "vllm")
    assert ended.returncode == 1
    assert "vllm cannot be imported: OSError: undefined symbol" in one_line(ended.stderr)


@pytest.mark.parametrize(
    "arguments", [["--engine", "other"], ["--timeout", "0"], ["--timeout", "x"], ["extra"]]
)
def test_a_wrong_command_line_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """By the parser, with status 2 and its usage."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m platform_abc" in capsys.readouterr().err


def test_an_unknown_engine_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """For callers of the function."""
    assert detect.run_detect("other") == 4
    assert "known are: native, vllm" in one_line(capsys.readouterr().err)


def test_an_interrupt_ends_it_with_status_two(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one line; the child is ended."""

    def interrupted(*_: object) -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(detect, "_ask_child", interrupted)
    assert detect.run_detect() == 2
    assert one_line(capsys.readouterr().err) == "platform-abc: interrupted"


def test_a_reader_that_stops_early_is_no_error(site: Path) -> None:
    """As with `| head -1`; standard error stays empty."""
    ended = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m platform_abc --json | true; exit ${{PIPESTATUS[0]}}"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_output_that_knows_few_characters_is_no_error(site: Path) -> None:
    """A plugin's text may hold any."""
    platform_plugin(site, "npu", "def register(): raise OSError('kein Ger\\u00e4t')\n")
    ended = command(site, PYTHONIOENCODING="ascii")
    assert ended.returncode == 0
    assert "OSError: kein Ger\\xe4t" in ended.stdout


def test_a_folder_that_is_gone_is_one_line(site: Path, tmp_path: Path) -> None:
    """The current folder was removed under the shell."""
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r}); from platform_abc.detect import run_detect; raise SystemExit(run_detect())"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=gone,
    )
    assert ended.returncode in (0, 1)
    assert "Traceback" not in ended.stderr
