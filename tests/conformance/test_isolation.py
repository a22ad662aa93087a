"""Hostile platforms: each attack is one check's failure, the next check runs, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from conformance.isolation import Host, reaper
from conformance.isolation.client import Ran
from conformance.model import Outcome
from conformance.target import parse
from tests.conformance.attacks import ATTACKS

if TYPE_CHECKING:
    from tests.conformance.conftest import Vendor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the hostile vendor."""
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def host(folder: Path) -> Iterator[Host]:
    """A host whose checks are attacks, with a limit of a few seconds."""
    from tests.conformance.conftest import Vendor

    vendor = Vendor(folder)
    vendor.platform("@classmethod\ndef trip(cls):\n    raise OSError('tripped')\n")
    vendor.checks(ATTACKS)
    before = os.getcwd()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    made = Host(
        parse("acme:AcmePlatform"), limit=4.0, open_limit=100.0, patience=2.0, checks_from="shams", light=True
    )
    try:
        opening = made.open()
        assert opening.status == "ready", opening
        yield made
    finally:
        made.close()
        os.chdir(before)
        sys.path.remove(str(folder))


def _run(host: Host, name: str) -> Ran:
    ran = host.run(f"identity.{name}")
    assert not ran.broken, ran.broken
    return ran


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("segfault", "died on signal 11 (SIGSEGV)"),
        ("exit-zero", "exited with status 0 without an answer"),
        ("exit-three", "exited with status 3 without an answer"),
        ("hang", "did not answer within 4 s"),
        ("deaf-hang", "did not answer within 4 s"),
        ("abort", "died on signal 6 (SIGABRT)"),
        ("kill-self", "died on signal 9 (SIGKILL)"),
        ("stop-self", "did not answer within 4 s"),
        ("takes-a-signal", "died on signal 14 (SIGALRM)"),
        ("kills-its-parent", "died on signal 9 (SIGKILL)"),
    ],
)
def test_a_death_is_told_by_how_it_came(host: Host, name: str, told: str) -> None:
    """A crash, an exit, a hang: each is named, and the next check finds a working host."""
    ran = _run(host, name)
    assert ran.answer is None
    assert str(ran.died) == told
    after = _run(host, "no-environment")
    assert after.answer is not None
    assert after.answer.outcome is Outcome.PASS


@pytest.mark.parametrize(("name", "frame"), [("segfault", "shams.py"), ("hang", "shams.py")])
def test_a_crash_and_a_hang_say_where(host: Host, name: str, frame: str) -> None:
    """What the process printed last holds the Python frame in which it died or stood."""
    assert frame in _run(host, name).output


def test_what_a_check_does_to_torch_reaches_no_other(host: Host) -> None:
    """One check replaces a function of torch that the host has imported, the next one finds it whole."""
    whole = attrs.evolve(host, light=False, limit=60.0, scratch=None, child=None)
    try:
        assert whole.open().status == "ready"
        for name in ("patches-torch", "torch-is-whole"):
            answer = _run(whole, name).answer
            assert answer is not None
            assert answer.outcome is Outcome.PASS
    finally:
        whole.close()


@pytest.mark.parametrize(
    "name",
    [
        "closes-fds", "closes-and-reuses-fds", "replaces-stdout", "closes-stdout", "forks", "daemon",
        "child-of-its-own", "fork-answers-twice", "threads", "atexit", "patches-os", "environment",
        "no-environment", "odd-details", "fresh-answer", "fresh-slow",
        "fresh-is-fresh",
    ],
)  # fmt: skip
def test_what_a_check_survives_changes_no_answer(host: Host, name: str) -> None:
    """Printing, closing, forking, patching and leaving threads behind do not cost a check its answer."""
    start = time.monotonic()
    ran = _run(host, name)
    assert ran.answer is not None, ran.died
    assert ran.answer.outcome is Outcome.PASS, ran.answer
    assert time.monotonic() - start < 30


def test_daemons_of_a_check_are_ended(host: Host, folder: Path) -> None:
    """A process that left the group and the session of its check is found and ended."""
    (folder / "daemon.pid").unlink(missing_ok=True)
    ran = _run(host, "daemon")
    assert ran.left >= 1
    assert not Path(f"/proc/{(folder / 'daemon.pid').read_text()}").exists()


def test_output_is_kept_apart_and_shown(host: Host) -> None:
    """A flood of output reaches nobody's stdout; its end is kept for the failure."""
    ran = _run(host, "prints")
    assert ran.answer is not None
    assert ran.answer.outcome is Outcome.FAIL
    assert ran.output.endswith("the last word")
    assert len(ran.output) < 10_000


@pytest.mark.parametrize(
    ("name", "told"), [("sys-exit", "SystemExit: 5"), ("interrupt", "KeyboardInterrupt")]
)
def test_what_is_no_ordinary_exception_is_the_platforms(host: Host, name: str, told: str) -> None:
    """`sys.exit` inside a hook ends no process of ours and is a failure."""
    answer = _run(host, name).answer
    assert answer is not None
    assert answer.outcome is Outcome.FAIL
    assert told in answer.findings[0].platform_did


def test_an_exception_out_of_the_platforms_file_is_the_platforms(host: Host) -> None:
    """What the platform's own line raised is a failure there, even if the check did not expect it."""
    answer = _run(host, "raises-in-platform").answer
    assert answer is not None
    assert answer.outcome is Outcome.FAIL
    assert "OSError: tripped" in answer.findings[0].platform_did
    assert "acme.py:" in answer.findings[0].location


@pytest.mark.parametrize("name", ["raises-oddly", "fresh-raise"])
def test_an_exception_of_the_check_is_an_error(host: Host, name: str) -> None:
    """What no line of the platform raised is never blamed on it."""
    answer = _run(host, name).answer
    assert answer is not None
    assert answer.outcome is Outcome.ERROR
    assert answer.traceback


@pytest.mark.parametrize(
    ("name", "told"),
    [("fresh-exit", "exited with status 0 without an answer"), ("fresh-hang", "did not answer within 1 s")],
)
def test_the_death_of_a_fresh_interpreter_is_a_failure(host: Host, name: str, told: str) -> None:
    """A check that lets `ChildDied` pass fails with how the child died."""
    answer = _run(host, name).answer
    assert answer is not None
    assert answer.outcome is Outcome.FAIL
    assert told in answer.findings[0].platform_did


def test_a_stopped_host_is_replaced(host: Host) -> None:
    """A check that stops the host costs its limit and some patience, not the run."""
    ran = _run(host, "stops-its-parent")
    assert str(ran.died) == "did not answer within 4 s"
    after = _run(host, "no-environment").answer
    assert after is not None
    assert after.outcome is Outcome.PASS


def test_a_host_that_dies_between_checks_is_replaced(host: Host) -> None:
    """A host that is gone when the next check comes is started again, unseen by the check."""
    assert host._child is not None
    host._child.process.kill()
    host._child.process.wait()
    answer = _run(host, "no-environment").answer
    assert answer is not None
    assert answer.outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("before", "status", "told"),
    [
        ("import sys; sys.exit('gone')", "failed", "raised SystemExit: gone"),
        ("raise KeyboardInterrupt", "failed", "raised KeyboardInterrupt"),
        ("class Odd(BaseException): ...\nraise Odd('x')", "failed", "raised Odd: x"),
        ("import os; os.kill(os.getpid(), 9)", "failed", "died on signal 9 (SIGKILL)"),
        ("def broken(:", "failed", "raised SyntaxError"),
        ("import sys; sys.modules[__name__] = None", "failed", "acme is None in sys.modules"),
        (
            "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd",
            "failed",
            "raises SystemExit",
        ),
        ("raise ValueError('x' * 100_000_000)", "failed", "characters left out"),
        ("import a_driver_that_is_not_there", "failed", "raised ModuleNotFoundError"),
        ("import os; os.closerange(3, 4096)", "failed", "closed every open file of its process"),
        ("import builtins; builtins.isinstance = lambda *a: False", "failed", "replaced builtins.isinstance"),
        ("import builtins; del builtins.len", "failed", "replaced builtins.len"),
        ("import signal; signal.signal = None", "failed", "replaced signal.signal"),
        ("import sys; sys.modules['conformance.perform'] = sys", "failed", "replaced conformance.perform"),
        (
            "from conformance.context import CheckContext\nCheckContext.fail = None",
            "failed",
            "replaced conformance.context.CheckContext.fail",
        ),
        ("import os; os.fork = None", "failed", "replaced os.fork"),
        ("import builtins; builtins.print = lambda *a, **k: None", "ready", ""),
        ("import os; plain = os.getpid\nos.getpid = lambda: plain()", "ready", ""),
        ("import os, time\nif os.fork() == 0: time.sleep(1000)", "ready", ""),
        ("import os; os.fork()", "ready", ""),
        ("import os\nif os.fork() == 0: raise ValueError", "ready", ""),
        ("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "ready", ""),
        ("import sys; sys.stdout.close(); sys.stderr = None", "ready", ""),
        ("import atexit, time; atexit.register(time.sleep, 1000)", "ready", ""),
        ("import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start()", "ready", ""),
        ("import os; os.write = os.read = os.fstat = os._exit = None", "ready", ""),
        ("import os; os.chdir('/'); os.environ.clear()", "ready", ""),
        ("import warnings; warnings.simplefilter('error')", "ready", ""),
        ("print('x' * 2_000_000)", "ready", ""),
    ],
)
def test_an_import_does_what_it_likes(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, before: str, status: str, told: str
) -> None:
    """What ends the import is told; what does not end it changes no answer of a check."""
    vendor.platform(before=before + "\n")
    monkeypatch.chdir(vendor.folder)
    monkeypatch.syspath_prepend(str(vendor.folder))
    host = Host(parse("acme:AcmePlatform"), limit=60.0, checks_from="shams", light=True)
    try:
        opening = host.open()
        assert (opening.status, told in opening.line) == (status, True), opening
        if status == "ready":
            answer = host.run("identity.good").answer
            assert answer is not None
            assert answer.outcome is Outcome.PASS
    finally:
        start = time.monotonic()
        host.close()
        assert time.monotonic() - start < 10


def test_a_check_that_began_early_runs_beside_others(host: Host, folder: Path) -> None:
    """What was begun runs while other checks do, here until one of them lets it go on."""
    host.begin("identity.beside")
    _wait(lambda: (folder / "beside").exists())
    for name in ("forks", "releases"):
        answer = _run(host, name).answer
        assert answer is not None
        assert answer.outcome is Outcome.PASS, answer
    answer = _run(host, "beside").answer
    assert answer is not None
    assert answer.outcome is Outcome.PASS, answer


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("segfault", "died on signal 11 (SIGSEGV)"),
        ("hang", "did not answer within 4 s"),
        ("kills-its-parent", "died on signal 9 (SIGKILL)"),
        ("fresh-hang", ""),
        ("fresh-slow", ""),
        ("daemon", ""),
        ("closes-fds", ""),
    ],
)
def test_a_check_that_began_early_has_the_same_answer(host: Host, name: str, told: str) -> None:
    """Early or not, a death is told by how it came, a limit holds, and nothing is left."""
    host.begin(f"identity.{name}")
    ran = _run(host, name)
    if told:
        assert str(ran.died) == told
    else:
        plain = _run(host, name)
        assert ran.answer is not None, ran.died
        assert plain.answer is not None
        assert (ran.answer.outcome, ran.left > 0) == (plain.answer.outcome, plain.left > 0)
    after = _run(host, "no-environment")
    assert after.answer is not None
    assert after.answer.outcome is Outcome.PASS
    assert host._child is not None
    assert reaper.descendants(host._child.process.pid) == set()


def test_what_began_early_ends_with_the_host(host: Host, folder: Path) -> None:
    """A host that dies takes its early checks with it, and the check is run again when it is asked for."""
    (folder / "beside").unlink(missing_ok=True)
    host.begin("identity.beside")
    _wait(lambda: (folder / "beside").exists() and len((folder / "beside").read_text().split()) == 2)
    early = (folder / "beside").read_text().split()
    assert host._child is not None
    host._child.process.kill()
    host._child.process.wait()
    _run(host, "releases")
    _wait(lambda: not any(_runs(one) for one in early))
    host.begin("identity.beside")
    _wait(lambda: (folder / "beside").exists())
    _run(host, "releases")
    assert _run(host, "beside").answer is not None


def test_nothing_is_left_behind(vendor: Vendor) -> None:
    """A run leaves its folder as it was but for the report: no cache, no scratch, no bytecode of the vendor."""
    vendor.platform("@classmethod\ndef trip(cls):\n    raise OSError('tripped')\n")
    vendor.checks("import tempfile\nsham('identity.t', lambda ctx: tempfile.mkdtemp() and None)")
    temporary = vendor.folder / "tmp"
    temporary.mkdir()
    before = {one.name for one in vendor.folder.iterdir()}
    ran = vendor.kit(TMPDIR=str(temporary), PYTHONDONTWRITEBYTECODE="1")
    assert ran.code == 0, ran.out
    assert {one.name for one in vendor.folder.iterdir()} - before == {"report.json"}
    assert list(temporary.iterdir()) == []


def test_a_killed_run_leaves_nothing_behind(vendor: Vendor, tmp_path: Path) -> None:
    """When pytest itself is killed, the host ends its check, removes the scratch folder and leaves."""
    vendor.checks(
        "import os, pathlib, time\n"
        "def slow(ctx):\n    pathlib.Path('slow.pid').write_text(f'{os.getpid()} {os.getppid()}')\n"
        "    time.sleep(1000)\n"
        "sham('identity.slow', slow)\n"
    )
    temporary = vendor.folder / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "conformance",
         "--platform=acme:AcmePlatform", "--conformance-checks-from=shams", "-q"],
        cwd=vendor.folder, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    mark = vendor.folder / "slow.pid"
    _wait(lambda: mark.exists() and len(mark.read_text().split()) == 2)
    assert len(list(temporary.iterdir())) == 1
    process.kill()
    process.wait()
    check, host = mark.read_text().split()
    _wait(lambda: not _runs(check) and not _runs(host))
    _wait(lambda: not list(temporary.iterdir()))


def test_a_run_killed_during_a_hanging_import_leaves_nothing_behind(vendor: Vendor) -> None:
    """The host that hangs in the platform's import notices that nobody waits for it any more."""
    vendor.platform(
        before="import os, pathlib, time\npathlib.Path('host.pid').write_text(str(os.getpid()))\ntime.sleep(1000)\n"
    )
    code = "from conformance import check_platform; check_platform('acme:AcmePlatform', checks_from='shams')"
    temporary = vendor.folder / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=vendor.folder, env={**os.environ, "TMPDIR": str(temporary)}
    )
    mark = vendor.folder / "host.pid"
    _wait(lambda: mark.exists() and mark.read_text() != "")
    process.kill()
    process.wait()
    _wait(lambda: not _runs(mark.read_text()), 10)
    _wait(lambda: not list(temporary.iterdir()), 10)


def _runs(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _wait(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.05)
