"""The situation table: each row is a run of pytest, its verdict, its exit status and its report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conformance.conftest import Vendor


def test_nothing_failed_and_nothing_skipped_is_conformant(vendor: Vendor) -> None:
    """All checks pass or are declared unsupported: `conformant`, exit 0, the verdict is the last line."""
    vendor.checks('sham("identity.good")\nsham("identity.no", declining)')
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert ran.last.startswith("conformant: acme.AcmePlatform (")
    assert ran.outcomes["identity.no"] == "unsupported"


def test_a_failing_should_is_a_warning(vendor: Vendor) -> None:
    """A `should` that fails leaves the verdict `conformant` and is shown in full."""
    vendor.checks('sham("identity.soft", failing, severity="should")')
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert "WARN identity.soft (should, static)" in ran.out
    assert ran.outcomes["identity.soft"] == "fail"


def test_a_failing_should_counts_when_strict(vendor: Vendor) -> None:
    """`--conformance-strict` makes a `should` decide."""
    vendor.checks('sham("identity.soft", failing, severity="should")')
    ran = vendor.kit("--conformance-strict")
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out


def test_something_skipped_is_partial(vendor: Vendor) -> None:
    """A check that this machine cannot run: `partial`, exit 0, listed with how to run it."""
    vendor.checks('sham("identity.good")\nsham("device.x", lacking, level=Level.DEVICE)')
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (0, "partial"), ran.out
    assert "no acme device; to run it: plug one in" in ran.out
    assert ran.last.startswith("partial: acme.AcmePlatform (1 check did not run here")


@pytest.mark.parametrize(("required", "code"), [("device", 1), ("engine", 1), ("contract", 0)])
def test_a_required_level_turns_partial_into_failure(vendor: Vendor, required: str, code: int) -> None:
    """`--conformance-require` fails a run that skipped a check of that level or a cheaper one."""
    vendor.checks('sham("device.x", lacking, level=Level.DEVICE)')
    ran = vendor.kit(f"--conformance-require={required}")
    assert (ran.code, ran.verdict) == (code, "partial"), ran.out


def test_everything_skipped_is_partial_and_not_a_usage_error(vendor: Vendor) -> None:
    """When every check of the module is skipped pytest would say 5 or 0; the kit says `partial`."""
    vendor.checks('sham("device.x", lacking, level=Level.DEVICE)\nsham("device.y", lacking)')
    ran = vendor.kit("--conformance-require=device")
    assert (ran.code, ran.verdict) == (1, "partial"), ran.out


def test_a_failing_must_is_not_conformant(vendor: Vendor) -> None:
    """A `must` that fails: `not conformant`, exit 1, and every part of the finding is shown."""
    vendor.checks('sham("identity.bad", failing)\nsham("device.x", lacking)\nsham("identity.e", broken)')
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    for text in ("It is a word.", "it is 'acme'", "Rename it.", "An engine needs it.", "acme.py:"):
        assert text in ran.out
    assert ran.last.startswith("not conformant: acme.AcmePlatform (1 check failed")


def test_an_expected_failure_that_fails_is_conformant(vendor: Vendor) -> None:
    """An expected failure is `xfail`, shown with its reason, and fails nothing."""
    vendor.checks('sham("identity.bad", failing)')
    vendor.write(
        "pyproject.toml", '[tool.platform-abc.expected-failures]\n"identity.bad" = {reason = "known"}'
    )
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert ran.outcomes["identity.bad"] == "xfail"
    assert "known" in ran.out


def test_an_expected_failure_that_passes_is_not_conformant(vendor: Vendor) -> None:
    """A strict expected failure that passes is a failure of its own."""
    vendor.write(
        "pyproject.toml", '[tool.platform-abc.expected-failures]\n"identity.good" = {reason = "old"}'
    )
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert ran.outcomes["identity.good"] == "xpass"
    assert "it was expected to fail (old), and passed; remove the entry" in ran.out


def test_an_expected_failure_that_is_not_strict_may_pass(vendor: Vendor) -> None:
    """With `strict = false` a pass is shown and fails nothing."""
    vendor.write(
        "pyproject.toml",
        '[tool.platform-abc.expected-failures]\n"identity.good" = {reason = "flaky", strict = false}',
    )
    ran = vendor.kit("-o", "xfail_strict=true")
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert ran.outcomes["identity.good"] == "xpass"


def test_an_error_without_a_failure_is_undetermined(vendor: Vendor) -> None:
    """A check that breaks by itself blames nobody: `undetermined`, exit 3, with its traceback."""
    vendor.checks('sham("identity.e", broken)\nsham("identity.after", needs=("identity.e",))')
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (3, "undetermined"), ran.out
    assert "LookupError: the kit has a hole" in ran.out
    assert ran.outcomes == {**ran.outcomes, "identity.e": "error", "identity.after": "not-run"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("front", ["pytest", "platform-abc"])
def test_an_interrupted_run_reports_what_ran(vendor: Vendor, number: signal.Signals, front: str) -> None:
    """SIGINT or SIGTERM, to pytest or to our command: `interrupted`, exit 2, what ran is in the report and no process is left."""
    vendor.checks(
        """
        import time, pathlib, os

        def slow(ctx):
            time.sleep(1)  # a free core starts it beside the check before, which has to be done by then
            pathlib.Path("slow.pid").write_text(str(os.getpid()))
            time.sleep(100)

        sham("identity.good")
        sham("identity.slow", slow)
        sham("identity.z-after")
        """
    )
    command = {
        "pytest": ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "--pyargs", "conformance",
                   "--platform=acme:AcmePlatform"],
        "platform-abc": ["-c", "import sys; from platform_abc._shim import main; sys.exit(main())", "check",
                         "acme:AcmePlatform", "-p", "no:randomly"],
    }[front]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, *command, "--conformance-checks-from=shams", "--conformance-report=report.json"],
        cwd=vendor.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(vendor.folder)},
        # A shell that runs the tests in the background lets them, and so this child, ignore SIGINT.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    mark = vendor.folder / "slow.pid"
    until = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    out = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 2, out
    report = json.loads((vendor.folder / "report.json").read_text())
    outcomes = {one["id"]: one["outcome"] for one in report["checks"]}
    assert report["verdict"] == "interrupted"
    assert (outcomes["identity.good"], outcomes["identity.slow"]) == ("pass", "not-run")
    assert "interrupted: acme.AcmePlatform" in out
    # A check that ran beside another has a supervisor, which ends it when it sees the kit gone.
    until = time.monotonic() + 5
    while (left := Path(f"/proc/{mark.read_text()}").exists()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def test_a_conftest_that_breaks_the_session_is_undetermined(vendor: Vendor) -> None:
    """What breaks pytest after the kit has started is blamed on nobody and leaves a report: exit 3."""
    vendor.write(
        "conftest.py",
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_sessionstart(session):
            raise RuntimeError("mine")
        """,
    )
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (3, "undetermined"), ran.out


def test_a_contract_older_than_every_check_is_refused(vendor: Vendor) -> None:
    """A pinned contract under which nothing would decide gives no verdict: one line, exit 4."""
    ran = vendor.kit("--conformance-contract=0.1")
    assert (ran.code, ran.verdict) == (4, "none"), ran.out
    assert "is older than every check" in ran.last


def test_a_kit_without_a_platform_says_so(vendor: Vendor) -> None:
    """No platform: one line, exit 4, a report without a verdict."""
    ran = vendor.kit(platform=None)
    assert (ran.code, ran.verdict) == (4, "none"), ran.out
    assert ran.last == "ERROR: the kit was given no platform; say --platform pkg.module:Class"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("acme::AcmePlatform", "is malformed"),
        ("acmee:AcmePlatform", "there is no module 'acmee'; did you mean 'acme'?"),
        ("acme.AcmePlatfrom", "'acme' has no name 'AcmePlatfrom'; did you mean 'AcmePlatform'?"),
        ("collections:OrderedDict", "collections.OrderedDict is not a platform class"),
    ],
)
def test_a_wrong_name_is_one_line(vendor: Vendor, name: str, told: str) -> None:
    """A malformed name, no such module, attribute or platform class: one line with a hint, exit 4."""
    ran = vendor.kit(f"--platform={name}", platform=None)
    assert ran.code == 4, ran.out
    assert told in ran.last, ran.out
    assert ran.last.startswith("ERROR: ")
    assert "Traceback" not in ran.out
    assert ran.verdict == "none"


def test_no_check_collected_is_a_usage_error(vendor: Vendor) -> None:
    """A selection that matches nothing: one line with a near id, exit 4."""
    ran = vendor.kit("--conformance-select=identity.goood")
    assert ran.code == 4, ran.out
    assert "no check collected" in ran.last
    assert "did you mean 'identity.good'?" in ran.last


def test_a_run_that_pytest_emptied_is_a_usage_error(vendor: Vendor) -> None:
    """`-k` that matches nothing deselects every check: no check was collected, exit 4."""
    ran = vendor.kit("-k", "nothing_like_this")
    assert (ran.code, ran.verdict) == (4, "none"), ran.out
    assert "no check collected" in ran.last


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no driver')", "raised ValueError: no driver"),
        ("import time; time.sleep(100)", "did not answer within 12 s"),
        ("import os; os._exit(0)", "exited with status 0 without an answer"),
        ("import ctypes; ctypes.string_at(0)", "died on signal 11 (SIGSEGV)"),
    ],
)
def test_an_import_that_fails_is_one_failure(vendor: Vendor, body: str, told: str) -> None:
    """The module is found and its import fails: `not conformant`, one failure, the rest `not-run`."""
    vendor.platform(before=body + "\n")
    ran = vendor.kit("--conformance-timeout=12" if "sleep" in body else "--conformance-timeout=60")
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    outcomes = ran.outcomes
    assert outcomes.pop("platform.importable") == "fail"
    assert set(outcomes.values()) == {"not-run"}
    assert told in ran.out
    assert "because platform.importable did not pass" in ran.out


def test_a_parent_package_that_raises_is_a_failed_import(vendor: Vendor) -> None:
    """A parent package that exists and raises is the platform's fault; one that does not exist is not."""
    vendor.write("shop/__init__.py", "raise RuntimeError('shut')")
    vendor.write("shop/acme.py", "class AcmePlatform: ...")
    ran = vendor.kit(platform="shop.acme:AcmePlatform")
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert "importing shop raised RuntimeError: shut" in ran.out
    assert vendor.kit(platform="shup.acme:AcmePlatform").code == 4
