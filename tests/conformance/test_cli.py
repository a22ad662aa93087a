"""The `platform-abc` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conformance.conftest import Vendor

SHAMS = "--conformance-checks-from=shams"


def test_check_runs_the_kit_and_gives_its_exit_status(vendor: Vendor) -> None:
    """`check` finds a package of the working folder, passes options on and ends with the verdict."""
    good = vendor.command("check", "acme:AcmePlatform", SHAMS, "--report", "report.json", "-v")
    assert (good.code, good.verdict) == (0, "conformant"), good.out
    assert good.last.startswith("conformant: acme.AcmePlatform")
    vendor.checks('sham("identity.bad", failing)\nsham("identity.lack", lacking)')
    bad = vendor.command("check", "acme:AcmePlatform", SHAMS, "--report=report.json")
    assert (bad.code, bad.verdict) == (1, "not conformant"), bad.out


def test_check_keeps_the_suite_around_it_out(vendor: Vendor) -> None:
    """A conftest that fails, options in the ini file and the environment do not reach the run."""
    vendor.write("conftest.py", "raise RuntimeError('mine')")
    vendor.write("pytest.ini", "[pytest]\naddopts = --no-such-option\n")
    ran = vendor.command("check", "acme:AcmePlatform", SHAMS, PYTEST_ADDOPTS="--no-such-option")
    assert ran.code == 0, ran.out
    assert not (vendor.folder / ".pytest_cache").exists()


def test_check_works_beside_a_folder_conformance(vendor: Vendor) -> None:
    """The command is not hidden by a package of that name in the working folder."""
    vendor.write("conformance/__init__.py", "")
    ran = vendor.command("check", "acme:AcmePlatform", SHAMS)
    assert ran.code == 0, ran.out


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["check"], "the kit was given no platform"),
        (["check", "nowhere:X"], "there is no module 'nowhere'"),
        (["check", "acme:AcmePlatform", "--level", "deep"], "'deep' is no level"),
        (["check", "--timeout"], "requires an argument"),
        (["chekc"], "No such command"),
        (["list", "--level", "deep"], "'deep' is no level"),
        (["list", "--select", "nothing.*"], "no id matches --select nothing.*; see platform-abc list"),
        (
            ["check", "acme:AcmePlatform", "--select", "nothing.*"],
            "no id matches --select nothing.*; see --list",
        ),
        (["detect", "--engine", "torch"], "unknown engine 'torch'"),
        (["detect", "--timeout", "soon"], "Invalid value for '--timeout'"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line(vendor: Vendor, args: list[str], told: str) -> None:
    """A wrong word on the command line: one line, exit 4, no traceback."""
    ran = vendor.command(*args)
    assert ran.code == 4, ran.out
    assert told in ran.last
    assert "Traceback" not in ran.out


@pytest.mark.parametrize("args", [[], ["--help"], ["check", "--help"], ["detect", "--help"]], ids=" ".join)
def test_help_is_there(vendor: Vendor, args: list[str]) -> None:
    """Every level of the command explains itself."""
    ran = vendor.command(*args)
    assert "Usage: platform-abc" in ran.out
    assert ran.code == (0 if args else 4)


def test_version_and_list(vendor: Vendor) -> None:
    """`--version` names kit and contract; `list` has every check of a level."""
    assert vendor.command("--version").out.startswith("platform-abc ")
    ran = vendor.command("list", "--level", "static")
    assert ran.code == 0
    assert "platform.importable" in ran.out
    assert " contract " not in ran.out


def test_detect_prints_the_resolution(vendor: Vendor) -> None:
    """`detect` is the report of the resolution, as text and as JSON."""
    import json

    text = vendor.command("detect", PLATFORM_ABC_TARGET_DEVICE="cpu")
    assert text.code == 0, text.out
    assert "platforms.cpu.CpuPlatform" in text.out
    data = vendor.command("detect", "--json", PLATFORM_ABC_TARGET_DEVICE="cpu")
    assert isinstance(json.loads(data.out), dict)


def test_check_can_list(vendor: Vendor) -> None:
    """`check X --list` lists what would run, as a user of pytest's options expects; nothing runs."""
    ran = vendor.command("check", "acme:AcmePlatform", SHAMS, "--list")
    assert (ran.code, ran.report) == (0, None), ran.out
    assert ran.last.endswith(" checks")
    assert "identity.good" in ran.out
