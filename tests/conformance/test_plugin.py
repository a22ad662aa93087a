"""The user's pytest configuration changes no verdict."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import attrs
import pytest

if TYPE_CHECKING:
    from tests.conformance.conftest import Vendor

MIXED = """
sham("identity.good")
sham("identity.no", declining)
sham("identity.soft", failing, severity="should")
sham("identity.lack", lacking)
sham("identity.chain-c", needs=("identity.chain-b",))
sham("identity.chain-b", needs=("identity.chain-a",))
sham("identity.chain-a")
"""
INI = {
    "names": """
        python_files = check_*.py
        python_functions = verify_*
        python_classes = Check*
        usefixtures = nothing_like_it
        xfail_strict = true
        filterwarnings = error
        timeout = 0.001
        testpaths = nowhere
        norecursedirs = * conformance
    """,
    "strict": "addopts = --strict-markers --strict-config --doctest-modules --import-mode=importlib",
    "quiet": "addopts = --tb=no -qq --no-header",
}


@pytest.fixture
def vendor(vendor: Vendor) -> Vendor:
    """A vendor whose runs have every installed plugin, as runs of users do."""
    return attrs.evolve(vendor, autoload=True)


@pytest.mark.parametrize("name", INI)
def test_an_ini_file_changes_no_verdict(vendor: Vendor, name: str) -> None:
    """Names of tests, fixtures, strictness, filters, doctests, time limits: none reaches a check."""
    vendor.checks(MIXED)
    vendor.write("pytest.ini", f"[pytest]\n{textwrap.dedent(INI[name])}\n")
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (0, "partial"), ran.out
    assert ran.outcomes["identity.chain-c"] == "pass"
    assert ran.report is not None
    assert ran.report["counts"]["pass"] == len(ran.report["checks"]) - 3


def test_an_intrusive_conftest_changes_no_verdict(vendor: Vendor) -> None:
    """Autouse fixtures, hooks around tests and marks of a conftest do not reach checks."""
    vendor.checks(MIXED)
    vendor.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True)
        def refuse():
            raise RuntimeError("no test may run")

        def pytest_runtest_setup(item):
            raise RuntimeError(item.fixturenames)

        def pytest_collection_modifyitems(items):
            for item in items:
                assert item.function and item.obj and item.module and item.cls is None
                item.fixturenames
                item.add_marker(pytest.mark.xfail(strict=True))
                item.add_marker(pytest.mark.skip(reason="all of them"))

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            report.outcome = "failed"
            return report
        """,
    )
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (0, "partial"), ran.out


@pytest.mark.parametrize(
    "args",
    [
        ["-W", "error"],
        ["-p", "no:cacheprovider", "-p", "no:python", "-p", "no:doctest"],
        ["-p", "randomly", "-p", "randomly", "--randomly-seed=3"],
        ["-n", "2"],
        pytest.param(["-n", "2", "--dist=loadgroup"], marks=pytest.mark.deep),
        ["-s", "-vv"],
        ["--capture=sys", "--color=yes"],
        ["-p", "no:terminal"],
        ["--junitxml=junit.xml"],
    ],
    ids=" ".join,
)
def test_options_of_pytest_change_no_verdict(vendor: Vendor, args: list[str]) -> None:
    """Warnings as errors, other plugins on or off, random order, parallel runs, capture, JUnit."""
    vendor.checks(MIXED)
    ran = vendor.kit(*args)
    assert (ran.code, ran.verdict) == (0, "partial"), ran.out
    assert set(ran.outcomes.values()) == {"pass", "unsupported", "fail", "skipped"}


@pytest.mark.parametrize("args", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_failure_is_the_same_alone_and_in_parallel(vendor: Vendor, args: list[str]) -> None:
    """The controller merges what workers found: one failure, its dependents not run, exit 1."""
    vendor.checks(
        'sham("identity.a-root", failing)\n'
        'sham("identity.b", needs=("identity.a-root",))\n'
        'sham("identity.c", needs=("identity.b",))\n'
    )
    ran = vendor.kit(*args)
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert ran.outcomes["identity.a-root"] == "fail"
    assert ran.outcomes["identity.b"] == ran.outcomes["identity.c"] == "not-run"
    assert "because identity.a-root did not pass" in ran.out


def test_a_failed_import_is_one_failure_in_parallel_too(vendor: Vendor) -> None:
    """Two workers meet the same broken import; the run has one failure."""
    vendor.platform(before="raise ValueError('no driver')\n")
    ran = vendor.kit("-n", "2")
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert list(ran.outcomes.values()).count("fail") == 1


def test_xdist_workers_get_copies_of_one_host(vendor: Vendor):
    """The platform is imported once in a run with workers, and a fresh call that checks share is made once."""
    vendor.platform(
        before="import os, pathlib\npathlib.Path('imports').open('a').write(f'{os.getpid()}\\n')\n"
    )
    vendor.write("shop.py", "def ask(folder):\n    open(f'{folder}/asked', 'a').write('x')\n    return 7\n")
    vendor.checks(
        """
        import os

        def asking(ctx):
            ctx.details["host"] = os.getppid()
            assert ctx.fresh("shop:ask", os.getcwd(), shared=True) == 7

        for number in range(6):
            sham(f"identity.asking{number}", asking, where="fresh")
        """
    )
    ran = vendor.kit("-n", "2")
    assert ran.code == 0, ran.out
    assert len((vendor.folder / "imports").read_text().split()) == 1
    assert (vendor.folder / "asked").read_text() == "x"
    assert ran.report is not None
    hosts = {one["details"].get("host") for one in ran.report["checks"]} - {None}
    assert len(hosts) == 2


def test_a_wrong_name_starts_no_worker(vendor: Vendor) -> None:
    """Under xdist a usage error is the controller's, one line, exit 4."""
    ran = vendor.kit("-n", "2", platform="acme:Acme")
    assert ran.code == 4, ran.out
    assert "did you mean 'AcmePlatform'?" in ran.last


def test_prerequisites_run_on_demand(vendor: Vendor) -> None:
    """A selected check runs what it needs first, in whatever order they were defined."""
    vendor.checks(MIXED)
    ran = vendor.kit("--conformance-select=identity.chain-c")
    assert ran.code == 0, ran.out
    assert ran.outcomes["identity.chain-c"] == ran.outcomes["identity.chain-a"] == "pass"
    assert ran.outcomes["identity.good"] == "skipped"
    assert ran.verdict == "partial"
    assert "deselected by --conformance-select identity.chain-c; to run it: leave that out" in ran.out


def test_a_deselected_prerequisite_that_fails_is_the_failure(vendor: Vendor) -> None:
    """What was only run because another check needs it still counts when it fails."""
    vendor.checks('sham("identity.root", failing)\nsham("identity.leaf", needs=("identity.root",))')
    ran = vendor.kit("--conformance-select=identity.leaf")
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert (ran.outcomes["identity.root"], ran.outcomes["identity.leaf"]) == ("fail", "not-run")
    assert "it is 'acme'" in ran.out


def test_what_pytest_deselects_is_skipped(vendor: Vendor) -> None:
    """`-k` makes the rest skipped, so the verdict is partial."""
    vendor.checks(MIXED)
    ran = vendor.kit("-k", "good")
    assert (ran.code, ran.verdict) == (0, "partial"), ran.out
    assert ran.outcomes["identity.good"] == "pass"
    assert "deselected by pytest" in ran.out


def test_stopping_at_the_first_failure_keeps_the_verdict(vendor: Vendor) -> None:
    """`-x` ends early; the rest is skipped, the verdict stays `not conformant`."""
    vendor.checks('sham("identity.bad", failing)\nsham("identity.later", level=Level.ENGINE)')
    ran = vendor.kit("-x", "-p", "no:randomly")
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert ran.outcomes["identity.later"] == "skipped"


def test_stepwise_stops_at_a_failure_that_decides(vendor: Vendor) -> None:
    """`--stepwise` ends the run as an interrupt would; the failure before that is the verdict."""
    vendor.checks('sham("identity.bad", failing)\nsham("identity.z-after")')
    vendor.write(
        "conftest.py",
        """
        def pytest_configure(config):
            class Stops:
                def pytest_runtest_logreport(self, report):
                    if report.failed:
                        config.pluginmanager.get_plugin("session").shouldstop = "as --stepwise does"
            config.pluginmanager.register(Stops())
        """,
    )
    ran = vendor.kit()
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out


@pytest.mark.parametrize("option", ["--fixtures", "--setup-plan"])
def test_options_that_only_look_judge_nothing(vendor: Vendor, option: str) -> None:
    """What lists a run runs no check, opens no platform and writes no report."""
    ran = vendor.kit(option)
    assert (ran.code, ran.report) == (0, None), ran.out
    assert "ERROR" not in ran.out
    assert "opening" not in ran.out


def test_levels_include_the_cheaper_ones_and_leave_out_the_dearer(vendor: Vendor) -> None:
    """`--conformance-level contract` runs static and contract checks; dearer ones are out of scope."""
    vendor.checks('sham("device.x", lacking, level=Level.DEVICE)\nsham("identity.s", level=Level.STATIC)')
    ran = vendor.kit("--conformance-level=contract")
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert "device.x" not in ran.outcomes
    assert ran.outcomes["identity.s"] == "pass"


def test_checks_newer_than_a_pinned_contract_decide_nothing(vendor: Vendor) -> None:
    """`--conformance-contract`: a newer check that fails is shown and changes no verdict, strict or not."""
    vendor.checks('sham("identity.old", since="0.9")\nsham("identity.new", failing, since="1.0")')
    ran = vendor.kit("--conformance-contract=0.9", "--conformance-strict")
    assert (ran.code, ran.verdict) == (0, "conformant"), ran.out
    assert ran.outcomes["identity.new"] == "fail"
    assert ran.report is not None
    assert ran.report["contract"] == "0.9"
    assert vendor.kit("--conformance-contract=1.0").code == 1


def test_the_list_runs_nothing(vendor: Vendor) -> None:
    """`--conformance-list` prints ids, severities, levels and reasons, needs no platform, exits 0."""
    vendor.checks(MIXED)
    ran = vendor.kit("--conformance-list", "--conformance-select=identity.*", platform=None)
    assert ran.code == 0, ran.out
    assert "identity.soft" in ran.out
    assert ran.last == "7 checks"
    assert ran.report is None


def test_collect_only_runs_nothing(vendor: Vendor) -> None:
    """`--collect-only` shows the checks and gives no verdict."""
    ran = vendor.kit("--collect-only", "-q")
    assert ran.code == 0, ran.out
    assert "conformance::identity.good" in ran.out
    assert ran.report is None


def test_an_engine_without_its_base_class_is_refused(vendor: Vendor) -> None:
    """`--conformance-engine` with an unknown name, or one that the class is not of: one line, exit 4."""
    ran = vendor.kit("--conformance-engine=nativ")
    assert ran.code == 4, ran.out
    assert "did you mean 'native'?" in ran.last
    assert "known: native, vllm" in ran.last
    assert vendor.kit("--conformance-engine=native").code == 0


@pytest.mark.deep
def test_the_time_limit_is_the_users(vendor: Vendor) -> None:
    """`--conformance-timeout` ends a check that takes longer; it fails with that limit."""
    vendor.checks("import time\nsham('identity.slow', lambda ctx: time.sleep(1000))")
    ran = vendor.kit("--conformance-timeout=12")
    assert (ran.code, ran.verdict) == (1, "not conformant"), ran.out
    assert "did not answer within 12 s" in ran.out


def test_the_report_has_its_shape(vendor: Vendor) -> None:
    """Every key of the schema is there, for every outcome; nothing that fails lacks a part."""
    vendor.checks(MIXED + 'sham("identity.bad", failing)\nsham("identity.e", broken)')
    ran = vendor.kit("--conformance-html=page.html")
    report = ran.report
    assert report is not None
    assert report["schema"] == 1
    assert set(report) >= {
        "schema", "kit", "contract", "engine", "platform", "environment", "verdict", "counts", "checks",
    }  # fmt: skip
    assert report["engine"]["name"] == "native"
    assert report["platform"]["qualname"] == "acme.AcmePlatform"
    assert report["platform"]["device"] == "Acme One"
    assert sum(report["counts"].values()) == len(report["checks"])
    for one in report["checks"]:
        assert set(one) >= {
            "id", "group", "severity", "level", "outcome", "member", "contract_says", "platform_did",
            "location", "why", "hint", "duration_s",
        }  # fmt: skip
        if one["outcome"] == "fail":
            assert all(one[key] for key in ("member", "contract_says", "platform_did", "location", "hint"))
        elif one["outcome"] not in ("pass",):
            assert one["reason"]
    page = (vendor.folder / "page.html").read_text()
    assert "identity.bad" in page
    assert "http" not in page.replace("http-equiv", "")


def test_hostile_text_does_not_break_the_reports(vendor: Vendor) -> None:
    """Markup, terminal codes and lone surrogates in a finding end in both reports as text."""
    vendor.checks(
        """
        def odd(ctx):
            raise ctx.fail("m", contract_says="<script>alert(1)</script>", platform_did="\\x1b[31m\\udc80",
                           hint="{{ 7 * 7 }}")
        sham("identity.odd", odd)
        """
    )
    ran = vendor.kit("--conformance-html=page.html")
    assert ran.code == 1, ran.out
    page = (vendor.folder / "page.html").read_text("utf-8", "replace")
    assert "<script>alert" not in page
    assert "{{ 7 * 7 }}" in page
    assert "Traceback" not in ran.out


@pytest.mark.parametrize("place", ["folder", "missing/deeper/report.json"])
def test_the_place_of_a_report_is_checked_before_the_run(vendor: Vendor, place: str) -> None:
    """A folder is refused at once with exit 4; a folder that is not there yet is made."""
    (vendor.folder / "folder").mkdir()
    ran = vendor.pytest(
        "--pyargs", "conformance", "--platform=acme:AcmePlatform", "--conformance-checks-from=shams",
        f"--conformance-report={place}",
    )  # fmt: skip
    if place == "folder":
        assert ran.code == 4, ran.out
        assert "is a folder; name a file" in ran.last
    else:
        assert ran.code == 0, ran.out
        assert json.loads((vendor.folder / place).read_text())["verdict"] == "conformant"
