"""General plugins: whose are run, when, and what is said of those that fail."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import general_plugins
from conformance.context import CheckContext
from conformance.engines import adapter
from conformance.general_plugins import GeneralPlugins, Trial, own, understand
from conformance.isolation.client import Host
from conformance.isolation.died import ChildDied
from conformance.model import Outcome, Violation
from conformance.registry import all_checks
from conformance.runner import Runner
from conformance.target import parse
from tests.conformance.conftest import Vendor
from tests.mutants.good import Good
from tests.platform_abc.fake_distributions import distribution

NATIVE, VLLM = "platform_abc.general_plugins", "vllm.general_plugins"
DETECTORS = "platform_abc.platform_plugins"


def of_module(name: str) -> type:
    """A class that says that it comes from a module."""
    return type("Chip", (), {"__module__": name})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path, without variables that filter plugins."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("PLATFORM_ABC_PLUGINS", "VLLM_PLUGINS", "CONFORMANCE_USERS_VLLM"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def installed(site: Path, name: str, points: dict[str, dict[str, str]], files: tuple[str, ...] = ()) -> None:
    """Install a distribution; `files` are those that its record lists."""
    info = distribution(site, name, entry_points=points, modules=dict.fromkeys(files, ""))
    if files:
        (info / "RECORD").write_text("".join(f"{one},,\n" for one in files))


@pytest.mark.parametrize(("engine", "group"), [("native", NATIVE), ("vllm", VLLM)])
def test_the_plugins_of_the_platforms_own_distribution_are_found(site: Path, engine: str, group: str) -> None:
    """By the files that it lists, whatever it is called, also those in another package of it."""
    points = {group: {"one": "chipware.boot:go", "two": "chip_ops:register"}, "others": {"x": "chipware:x"}}
    installed(site, "chip-for-engines", points, ("chipware/platform.py", "chip_ops.py"))
    found = own(adapter(engine), of_module("chipware.platform"))
    assert found == (("one", "chipware.boot:go"), ("two", "chip_ops:register"))


def test_a_strangers_plugin_stays_out(site: Path) -> None:
    """Also one that leads into the vendor's package, once the vendor's distribution is known by its files."""
    installed(site, "chip", {NATIVE: {"chip": "chipware:go"}}, ("chipware/__init__.py",))
    installed(
        site, "stranger", {NATIVE: {"bad": "stranger:go", "worse": "chipware:break_it"}}, ("stranger.py",)
    )
    assert own(adapter("native"), of_module("chipware.platform")) == (("chip", "chipware:go"),)


def test_a_distribution_without_a_list_of_its_files_is_known_by_its_detector(site: Path) -> None:
    """As where it is installed for editing: its detector leads into the package, its plugin into another."""
    installed(site, "made-by-chip", {DETECTORS: {"chip": "chipware:detect"}, NATIVE: {"ops": "chip_ops:go"}})
    installed(site, "stranger", {NATIVE: {"bad": "stranger:go"}})
    assert own(adapter("native"), of_module("chipware.platform")) == (("ops", "chip_ops:go"),)


def test_a_distribution_that_lists_its_packages_is_known_by_them(site: Path) -> None:
    """As older tools write it, also where a package is installed for editing."""
    installed(site, "made-by-chip", {NATIVE: {"ops": "chip_ops:go"}})
    (site / "made_by_chip-1.0.dist-info" / "top_level.txt").write_text("chip_ops\nchipware\n")
    (site / "chipware").mkdir()
    (site / "chipware" / "__init__.py").write_text("")
    assert own(adapter("native"), of_module("chipware.platform")) == (("ops", "chip_ops:go"),)


def test_a_checkout_without_a_distribution_has_none(site: Path) -> None:
    """`mypkg:MyPlatform` from a folder: what others have installed is not its own."""
    (site / "chipware.py").write_text("")
    installed(site, "stranger", {NATIVE: {"bad": "stranger:go"}}, ("stranger.py",))
    assert own(adapter("native"), of_module("chipware")) == ()


def test_the_engines_own_platforms_have_none(site: Path) -> None:
    """What an engine ships it registers itself."""
    installed(site, "platforms", {NATIVE: {"own": "platforms.cpu:go"}}, ("platforms/cpu.py",))
    assert own(adapter("native"), of_module("platforms.cpu")) == ()


@pytest.mark.parametrize(
    ("engine", "group", "variable"),
    [("native", NATIVE, "PLATFORM_ABC_PLUGINS"), ("vllm", VLLM, "VLLM_PLUGINS")],
)
def test_what_the_user_does_not_let_in_stays_out(
    site: Path, monkeypatch: pytest.MonkeyPatch, engine: str, group: str, variable: str
) -> None:
    """The engine would not run it either."""
    installed(site, "chip", {group: {"one": "chip:one", "two": "chip:two"}}, ("chip.py",))
    monkeypatch.setenv(variable, "two,chip")
    assert own(adapter(engine), of_module("chip")) == (("two", "chip:two"),)


def test_a_bare_interpreter_stays_bare() -> None:
    """Scenes about imports load the kit's context first, which may bring no part of an engine along."""
    code = "import sys, conformance.checks._observe; print(*(one for one in sys.modules if one.startswith('platform')))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"platform", "platform_abc", "platform_abc.errors"}


# ------------------------------------------------------------------------------------ in a run

_SHAMS = """
def known():
    import torch
    return hasattr(torch, "privateuseone")

def late(ctx):
    assert known() and not ctx.device_missing(), ctx.device_missing()

def early(ctx):
    assert not known() and not ctx.device_missing(), ctx.device_missing()

sham("identity.class-only", early)
sham("identity.asks", late, level=Level.CONTRACT)
sham("identity.imports", early, level=Level.CONTRACT, where="fresh", needs=())
sham("identity.device", lambda ctx: (late(ctx), ctx.need_device()), level=Level.DEVICE)
"""
_PLUGIN = """
import sys

def go():
    import platforms
    import torch
    assert type(platforms.current_platform).__name__ == "AcmePlatform"
    torch._register_device_module("privateuseone", sys.modules[__name__])

def is_available():
    return True
"""


def _installed(vendor: Vendor, name: str, plugin: str) -> None:
    """Put metadata into the folder, as an installer does, and the module that they name."""
    distribution(vendor.folder, name, entry_points={NATIVE: {name: f"{name}_ops:go"}})
    vendor.write(f"{name}_ops.py", plugin)


@pytest.mark.torch
def test_a_device_that_a_general_plugin_makes_known_is_here(vendor: Vendor) -> None:
    """Checks that an engine comes to after the plugins find it known; earlier ones hear of it, and do not find it."""
    vendor.platform('device_type = "privateuseone"')
    vendor.checks(_SHAMS)
    _installed(vendor, "acme", _PLUGIN)
    _installed(vendor, "stranger", "def go():\n    raise RuntimeError('not my platform')")
    ran = vendor.kit()
    assert {name: ran.outcomes[name] for name in ran.outcomes if name.startswith("identity.")} == {
        "identity.class-only": "pass",
        "identity.asks": "pass",
        "identity.imports": "pass",
        "identity.device": "skipped",  # torch has no kernels for it, so that nothing can be computed there
    }, ran.out
    assert "no kernel of torch allocates on this one" in ran.out


@pytest.mark.torch
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("import os; os._exit(7)", "ended the process that it ran in, with status 7"),
        ("import time; time.sleep(600)", "had not returned after 5 s"),
        ("raise OSError('no firmware')", "raised OSError: no firmware"),
    ],
)
def test_a_plugin_that_fails_is_one_finding(vendor: Vendor, body: str, told: str) -> None:
    """It is named with its line, and what an engine would come to afterwards does not run."""
    _installed(vendor, "acme", f"def go():\n    {body}")
    wanted = {
        "activation.general-plugins": "fail",
        "identity.device-name": "pass",
        "fallback.unknown-name": "not-run",
        "attention.runs": "not-run",
    }
    select = [f"--conformance-select={name}" for name in wanted]
    ran = vendor.pytest(
        *("--pyargs", "conformance", "--platform", "acme:AcmePlatform", "--conformance-timeout=10"),
        *("--conformance-report=report.json", *select),
    )
    assert {name: ran.outcomes[name] for name in wanted} == wanted, ran.out
    assert ran.report is not None
    found = next(one for one in ran.report["checks"] if one["outcome"] == "fail")
    assert f"the general plugin acme_ops:go {told}" in found["platform_did"]
    assert found["location"] == f"{vendor.folder / 'acme_ops.py'}:2"


@pytest.mark.torch
def test_a_platform_that_cannot_be_made_is_no_fault_of_the_plugins(vendor: Vendor) -> None:
    """They would run after it, so that one check says what is wrong."""
    vendor.platform("def __init__(self):\n    raise OSError('no driver')")
    _installed(vendor, "acme", "def go():\n    pass")
    ran = vendor.pytest(
        *("--pyargs", "conformance", "--platform", "acme:AcmePlatform", "--conformance-report=report.json"),
        *("--conformance-select=activation.general-plugins", "--conformance-select=platform.instantiable"),
    )
    assert ran.outcomes["platform.instantiable"] == "fail", ran.out
    assert ran.outcomes["activation.general-plugins"] == "not-run", ran.out


@pytest.mark.torch
def test_where_fork_is_unsafe_the_process_that_holds_the_platform_runs_them(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check finds the device known there, too."""
    vendor.platform('device_type = "privateuseone"')
    _installed(vendor, "acme", _PLUGIN)
    monkeypatch.syspath_prepend(str(vendor.folder))
    with contextlib.closing(Host(parse("acme:AcmePlatform"), inline=True)) as host:
        runner = Runner(all_checks(), host, host.open())
        assert runner.result("activation.general-plugins").outcome is Outcome.PASS
        assert runner.result("fallback.live").outcome is Outcome.PASS


# ------------------------------------------------------------------------------------ in a check


def _context(plugins: GeneralPlugins) -> CheckContext:
    def fresh(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no interpreter is started here")

    return CheckContext(Good, adapter("native"), fresh, plugins=plugins)


def test_plugins_run_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an engine: whoever asks again finds them done."""
    monkeypatch.setattr(general_plugins, "_ran", [])
    seen: list[str] = []
    for _ in range(2):
        general_plugins.run([("cwd", "os:getcwd")], seen.append)
    assert seen == ["os:getcwd", "os:getcwd"]  # imported, then called


def test_plugins_that_failed_when_they_were_tried_are_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cause is one failure: what would run if the trial had gone well is left alone."""
    monkeypatch.setattr(general_plugins, "_ran", [])
    points = (("cwd", "os:getcwd"),)
    ran: list[list[Any]] = []
    for trial in (Trial("os:getcwd", "raised"), Trial()):
        _context(GeneralPlugins(points, trial)).run_plugins()
        ran.append(list(general_plugins._ran))
    assert ran[0] == []
    assert ran[1] != []


@pytest.mark.torch
def test_a_plugin_that_fails_only_now_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had worked when the kit tried it."""
    monkeypatch.setattr(general_plugins, "_ran", [])
    with pytest.raises(Violation) as caught:
        _context(GeneralPlugins((("x", "no_such_module:go"),))).run_plugins()
    (finding,) = caught.value.findings
    assert finding.member == "no_such_module:go"
    assert "No module named 'no_such_module'" in finding.platform_did


def test_a_process_that_died_is_told_in_words(tmp_path: Path) -> None:
    """A crash is told with its signal, and the plugin that ran is known from the note."""
    note = tmp_path / "note"
    note.write_text("chip:go")
    trial = understand(None, ChildDied("signal", "signal 11 (SIGSEGV)"), Good, note)
    assert trial == Trial("chip:go", "ended the process that it ran in, which died on signal 11 (SIGSEGV)")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("error", "lack"),
    [
        (ModuleNotFoundError("No module named 'chip_driver'", name="chip_driver"), True),
        (ImportError("libchip.so: cannot open shared object file: No such file or directory"), True),
        (ModuleNotFoundError("No module named 'tests.x'", name="tests.x"), False),
        (ImportError("cannot import name 'go'"), False),
        (RuntimeError("no firmware"), False),
    ],
)
def test_a_library_that_is_not_here_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, lack: bool
) -> None:
    """The check is skipped then and says what is lacking; a mistake stays one."""

    def run(points: Any, tell: Any) -> None:
        tell("chip:go")
        raise error

    monkeypatch.setattr(general_plugins, "run", run)
    told = general_plugins.try_out([("chip", "chip:go")], Good, adapter("native"), tmp_path / "note")
    trial = understand(told, None, Good, tmp_path / "note")
    assert trial.plugin == "chip:go"
    assert bool(trial.lacks) is lack
