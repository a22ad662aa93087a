"""Runs in poor or odd surroundings: no home, no streams, no UTF-8, several runs in a process, threads, interrupts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conformance.conftest import Vendor

ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def _script(vendor: Vendor, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the vendor's folder."""
    file = vendor.write("script.py", text)
    command = [sys.executable, *args, str(file)]
    return subprocess.run(
        command, cwd=vendor.folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_run_without_home_and_without_utf_8(vendor: Vendor):
    """What does not fit the terminal's encoding is escaped; the verdict and the report are as ever."""
    vendor.checks(
        """
        def failing(ctx):
            raise ctx.fail("device_name", contract_says="Ein Wört.", platform_did="it is → “acme”", hint="Größer…")

        sham("identity.foreign", failing)
        """
    )
    ran = vendor.kit("--color=no", HOME="", **ASCII)
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert "Traceback" not in ran.out
    assert ran.out.isascii()
    assert "W\\xf6rt" in ran.out
    assert ran.report is not None
    assert (
        next(one for one in ran.report["checks"] if one["outcome"] == "fail")["platform_did"]
        == "it is → “acme”"
    )


def test_the_list_of_checks_fits_any_terminal(vendor: Vendor):
    """`--conformance-list` and the command's `list` print what the encoding can take."""
    for ran in (vendor.pytest("--conformance-list", **ASCII), vendor.command("list", **ASCII)):
        assert ran.code == 0, ran.out
        assert ran.last.endswith("checks")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_cost_no_report(vendor: Vendor, closed: str):
    """The command opens them on nowhere, for pytest and for what runs under it."""
    code = "import sys; from platform_abc._shim import main; sys.exit(main())"
    options = "check acme:AcmePlatform --report report.json --conformance-checks-from=shams"
    env = {**os.environ, "PYTHONPATH": str(vendor.folder / "lib")}
    shell = f'"{sys.executable}" -P -c "{code}" {options} {closed}'
    done = subprocess.run(["/bin/sh", "-c", shell], cwd=vendor.folder, env=env, check=False, timeout=120)
    assert done.returncode == 0
    assert json.loads((vendor.folder / "report.json").read_text())["verdict"] == "conformant"


def test_a_process_can_run_the_kit_again(vendor: Vendor):
    """A second `pytest.main` in one process judges anew, and a wrong name then is still one line."""
    told = _script(
        vendor,
        """
        import pytest

        start = ["-p", "no:cacheprovider", "-p", "no:xdist", "--pyargs", "conformance", "--conformance-checks-from=shams"]
        print([int(pytest.main([*start, f"--platform=acme:{name}"])) for name in ("AcmePlatform", "AcmePlatform", "Acme")])
        """,
    )  # fmt: skip
    assert told.stdout.splitlines()[-1] == "[0, 0, 4]", told.stdout + told.stderr
    assert told.stdout.count("conformant: acme.AcmePlatform") == 2
    assert "did you mean 'AcmePlatform'?" in told.stdout + told.stderr


def test_platforms_can_be_judged_in_threads_and_in_a_test(vendor: Vendor):
    """`check_platform` needs neither the main thread nor a process of its own."""
    vendor.write(
        "test_own.py",
        """
        import threading

        from acme import AcmePlatform
        from conformance import check_platform
        from conformance.api import verdict_of

        def verdict(platform):
            return verdict_of(check_platform(platform, checks_from="shams")).value

        def test_mine(capsys):
            class Local(AcmePlatform):
                pass

            found = []
            threads = [threading.Thread(target=lambda: found.append(verdict("acme:AcmePlatform"))) for _ in range(2)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            assert found == ["conformant"] * 2
            assert verdict(Local) == "conformant"
        """,
    )
    ran = vendor.pytest("-q", "test_own.py")
    assert ran.code == 0, ran.out


def test_a_crash_names_the_member_that_was_called(vendor: Vendor):
    """Whether it leaves, crashes, hangs or raises, the text has the member and the platform's own line."""
    vendor.platform(
        """
        @classmethod
        def get_device_name(cls, device_id=0):
            import os
            os._exit(0)

        @classmethod
        def get_device_uuid(cls, device_id=0):
            import ctypes
            return cls.helper(ctypes)

        @classmethod
        def helper(cls, ctypes):
            ctypes.string_at(0)

        @classmethod
        def get_device_total_memory(cls, device_id=0):
            import time
            time.sleep(100)

        @classmethod
        def import_kernels(cls):
            raise LookupError("late")
        """
    )
    members = ("get_device_name", "get_device_uuid", "get_device_total_memory", "import_kernels")
    vendor.checks(
        "".join(f"sham('identity.c{n}', lambda ctx: ctx.platform.{m}())\n" for n, m in enumerate(members))
    )
    ran = vendor.kit("--conformance-timeout=3", "--conformance-select=identity.c*")
    assert ran.report is not None, ran.out
    found = [one for one in ran.report["checks"] if one["outcome"] == "fail"]
    assert [one["member"] for one in found] == list(members)
    source = (vendor.folder / "acme.py").read_text().splitlines()
    lines = [source[int(one["location"].rpartition(":")[2]) - 1].strip() for one in found]
    assert lines == ["os._exit(0)", "ctypes.string_at(0)", "time.sleep(100)", 'raise LookupError("late")']


@pytest.mark.parametrize("stage", ["", "if '--pyargs' in sys.argv: "])
def test_an_interrupt_before_the_run_is_one_line(vendor: Vendor, stage: str):
    """While the command, or pytest after it, is still being imported, an interrupt shows no traceback."""
    vendor.write("lib/pytest.py", f"import sys\n{stage}raise KeyboardInterrupt\n")
    ran = vendor.command("check", "acme:AcmePlatform")
    assert (ran.code, ran.out) == (2, "platform-abc: interrupted\n")
