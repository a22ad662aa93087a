"""Plugins are found, filtered, loaded and reported with the distribution that brought them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from platform_abc import plugins
from platform_abc.errors import ResolutionError
from platform_abc.plugins import load_plugins_by_group
from tests.platform_abc.fake_distributions import distribution, fresh

GROUP = "platform_abc.platform_plugins"
GENERAL = "platform_abc.general_plugins"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder on the import path; modules that start with `pl_` are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("PLATFORM_ABC_PLUGINS", raising=False)
    plugins.reset_general_plugins()
    yield tmp_path
    plugins.reset_general_plugins()
    for name in [name for name in sys.modules if name.startswith("pl_")]:
        del sys.modules[name]


def put(site: Path, dist: str, name: str, source: str, *, group: str = GROUP, version: str = "1.0") -> None:
    module = f"pl_{dist.replace('-', '_')}_{name}"
    distribution(
        site, dist, version, entry_points={group: {name: f"{module}:go"}}, modules={f"{module}.py": source}
    )


GOOD = "def go():\n    return 'a.B'\n"


def test_a_plugin_knows_its_distribution(site: Path) -> None:
    """Name, version and value of the entry point are there to be shown."""
    put(site, "vendor-npu", "npu", GOOD, version="1.2")
    ((plugin, function),) = load_plugins_by_group(GROUP, environ={}).loaded
    assert plugin.title == "npu (vendor-npu 1.2)"
    assert plugin.value == "pl_vendor_npu_npu:go"
    assert function() == "a.B"


def test_the_order_does_not_depend_on_the_path(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted by name, then by distribution, whichever folder comes first."""
    for folder, names in (("one", "zb"), ("two", "ac")):
        monkeypatch.syspath_prepend(str(site / folder))
        for name in names:
            put(site / folder, f"{folder}-{name}", name, GOOD)
    names = [plugin.name for plugin, _ in load_plugins_by_group(GROUP, environ={}).loaded]
    assert names == ["a", "b", "c", "z"]


def test_the_filter_allows_what_it_names(site: Path) -> None:
    """Unset allows all, empty allows none, a name allows that one; nothing else is even imported."""
    put(site, "d-a", "a", GOOD)
    put(site, "d-b", "b", "raise RuntimeError('imported')")
    only = load_plugins_by_group(GROUP, environ={"PLATFORM_ABC_PLUGINS": "a"})
    assert [plugin.name for plugin, _ in only.loaded] == ["a"]
    assert [plugin.name for plugin in only.filtered] == ["b"]
    assert not only.failures
    none = load_plugins_by_group(GROUP, environ={"PLATFORM_ABC_PLUGINS": ""})
    assert not none.loaded
    assert len(none.filtered) == 2
    assert "pl_d_b_b" not in sys.modules


def test_an_unknown_name_in_the_filter_is_a_warning(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A typo in the filter would silently switch a plugin off; the close name is suggested."""
    put(site, "d-a", "my_npu", GOOD)
    found = load_plugins_by_group(GROUP, environ={"PLATFORM_ABC_PLUGINS": "my_npv"})
    assert found.complaints == (
        "PLATFORM_ABC_PLUGINS names the plugin 'my_npv', which is not installed; did you mean 'my_npu'?",
    )
    assert caplog.messages == list(found.complaints)


def test_the_filter_may_name_plugins_of_both_groups(site: Path) -> None:
    """One variable filters platform and general plugins, so neither makes the other unknown."""
    put(site, "d-a", "plat", GOOD)
    put(site, "d-b", "gen", GOOD, group=GENERAL)
    for group in (GROUP, GENERAL):
        found = load_plugins_by_group(group, environ={"PLATFORM_ABC_PLUGINS": "plat,gen"})
        assert found.complaints == ()
        assert len(found.loaded) == 1


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_missing_dependency", "No module named 'a_missing_dependency'"),
        ("def other(): pass", "has no attribute 'go'"),
        ("go = 3", "is of type int, expected a function without arguments"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def", "SyntaxError"),
    ],
)
def test_a_failing_plugin_is_data_and_a_warning(
    site: Path, caplog: pytest.LogCaptureFixture, source: str, reason: str
) -> None:
    """The warning names plugin, distribution and reason and says how to see the traceback; others load."""
    put(site, "bad-dist", "bad", source, version="0.9")
    put(site, "good-dist", "good", GOOD)
    found = load_plugins_by_group(GROUP, environ={})
    assert [plugin.name for plugin, _ in found.loaded] == ["good"]
    (failed,) = found.failures
    assert failed.plugin.title == "bad (bad-dist 0.9)"
    assert reason in failed.error
    assert "Traceback" in failed.traceback
    (message,) = caplog.messages
    assert "bad (bad-dist 0.9) failed to load" in message
    assert reason in message
    assert "python -m platform_abc" in message


def test_a_missing_module_of_an_entry_point_is_a_failure(site: Path) -> None:
    """A distribution whose wheel forgot the module is named, not skipped."""
    distribution(site, "hollow", entry_points={GROUP: {"hollow": "pl_not_packaged.device:go"}})
    (failed,) = load_plugins_by_group(GROUP, environ={}).failures
    assert "No module named 'pl_not_packaged'" in failed.error


def test_a_malformed_entry_point_is_a_failure(site: Path) -> None:
    """A value that is no `module:function` is that plugin's failure alone."""
    distribution(site, "odd", entry_points={GROUP: {"odd": "not a value !"}})
    put(site, "good-dist", "good", GOOD)
    found = load_plugins_by_group(GROUP, environ={})
    (failed,) = found.failures
    assert failed.plugin.name == "odd"
    assert "'not a value !', expected package.module:function" in failed.error
    assert len(found.loaded) == 1


def test_one_name_in_two_distributions_is_a_warning_and_both_load(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is chosen silently, and the order is that of the distributions' names."""
    put(site, "dist-b", "npu", GOOD, version="2.0")
    put(site, "dist-a", "npu", GOOD)
    found = load_plugins_by_group(GROUP, environ={})
    assert [plugin.origin for plugin, _ in found.loaded] == ["dist-a 1.0", "dist-b 2.0"]
    assert "'npu' is used 2 times, by dist-a 1.0 and dist-b 2.0" in caplog.text


def test_the_last_one_of_a_name_can_win(site: Path) -> None:
    """Engines that keep plugins in a dictionary by name load only the last one found."""
    put(site, "dist-a", "npu", GOOD)
    put(site, "dist-b", "npu", GOOD)
    found = load_plugins_by_group(GROUP, environ={}, last_wins=True)
    assert [plugin.origin for plugin, _ in found.loaded] == [
        plugins.discover([GROUP], as_found=True)[-1].origin
    ]


def test_damaged_metadata_hides_no_other_plugin(site: Path) -> None:
    """A distribution without METADATA, or with a broken entry_points.txt, is somebody else's."""
    put(site, "good-dist", "good", GOOD)
    (site / "nometa-1.0.dist-info").mkdir()
    (site / "nometa-1.0.dist-info" / "entry_points.txt").write_text(
        f"[{GROUP}]\nlost = pl_good_dist_good:go\n"
    )
    broken = distribution(site, "broken")
    (broken / "entry_points.txt").write_bytes(b"[\xff\xfe broken\nno equals sign")
    found = load_plugins_by_group(GROUP, environ={})
    assert [plugin.name for plugin, _ in found.loaded] == ["good", "lost"]
    (complaint,) = found.complaints
    assert "broken-1.0.dist-info cannot be read" in complaint


def test_nothing_is_hidden_by_a_missing_name(site: Path) -> None:
    """With one broken distribution each is read by itself; two without a name are not the same one."""
    for name in ("one", "two"):
        put(site, name, name, GOOD)
        (site / f"{name}-1.0.dist-info" / "METADATA").unlink()
    (distribution(site, "broken") / "entry_points.txt").write_text("[x]\nno equals sign\n")
    assert [plugin.name for plugin, _ in load_plugins_by_group(GROUP, environ={}).loaded] == ["one", "two"]


def test_an_older_copy_stays_hidden_by_the_first_one(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each distribution is read by itself, and where the copies spell the name differently."""
    for folder, dist in (("late", "My.Npu"), ("early", "my-npu")):
        monkeypatch.syspath_prepend(str(site / folder))
        distribution(site / folder, dist, entry_points={GROUP: {folder: f"pl_{folder}:go"}})
        (site / folder / f"pl_{folder}.py").write_text(GOOD)
    (distribution(site, "broken") / "entry_points.txt").write_text("[x]\nno equals sign\n")
    assert [plugin.name for plugin, _ in load_plugins_by_group(GROUP, environ={}).loaded] == ["early"]


def test_a_name_in_other_case_is_suggested(site: Path) -> None:
    """Names are compared as they are written; a plugin of another name is no suggestion."""
    put(site, "d-a", "npu", GOOD)
    found = load_plugins_by_group(GROUP, environ={"PLATFORM_ABC_PLUGINS": " NPU , cpu,"})
    assert [complaint.rpartition("; ")[2] for complaint in found.complaints] == [
        "did you mean 'npu'?",
        "installed are: npu",
    ]


def test_a_plugin_of_a_distribution_without_metadata_still_works(site: Path) -> None:
    """It is called what it is."""
    put(site, "good-dist", "good", GOOD)
    (site / "good_dist-1.0.dist-info" / "METADATA").unlink()
    ((plugin, _),) = load_plugins_by_group(GROUP, environ={}).loaded
    assert plugin.title == "good (an unreadable distribution)"


def test_each_plugin_is_announced_before_it_is_imported(site: Path) -> None:
    """Who watches from outside knows which plugin was being imported when the process died."""
    put(site, "d-a", "a", "import sys\nsys.pl_seen = list(sys.pl_told)\n" + GOOD)
    sys.pl_told = []  # type: ignore[attr-defined]
    load_plugins_by_group(GROUP, environ={}, before_each=lambda plugin: sys.pl_told.append(plugin.name))  # type: ignore[attr-defined]
    assert sys.pl_seen == ["a"]  # type: ignore[attr-defined]


def test_general_plugins_run_once_and_after_the_platform(site: Path) -> None:
    """The second call gives the first result; what must come before does."""
    put(site, "d-a", "a", "import sys\ndef go(): sys.pl_order.append('general')\n", group=GENERAL)
    sys.pl_order = []  # type: ignore[attr-defined]
    first = plugins.load_general_plugins(before=lambda: sys.pl_order.append("platform"))  # type: ignore[attr-defined]
    second = plugins.load_general_plugins(before=lambda: sys.pl_order.append("platform again"))  # type: ignore[attr-defined]
    assert sys.pl_order == ["platform", "general"]  # type: ignore[attr-defined]
    assert second is first


def test_a_failing_general_plugin_stops_no_other(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also one that wants to end the process."""
    put(site, "d-a", "a", "def go(): raise SystemExit(1)\n", group=GENERAL)
    put(site, "d-b", "b", "def go(): pass\n", group=GENERAL)
    done = plugins.load_general_plugins()
    assert [plugin.name for plugin, _ in done.loaded] == ["b"]
    assert [(failed.plugin.name, failed.doing) for failed in done.failures] == [("a", "run")]
    assert "a (d-a 1.0) failed to run: SystemExit: 1" in caplog.text


def test_a_general_plugin_that_loads_general_plugins_does_not_recurse(site: Path) -> None:
    """It gets an empty answer and everything runs once."""
    source = "import sys\nfrom platform_abc.plugins import load_general_plugins\n"
    source += "def go(): sys.pl_inner = load_general_plugins()\n"
    put(site, "d-a", "a", source, group=GENERAL)
    assert len(plugins.load_general_plugins().loaded) == 1
    assert sys.pl_inner.loaded == ()  # type: ignore[attr-defined]


def test_a_second_thread_waits_until_general_plugins_ran(site: Path) -> None:
    """Returning early would let it use what is not registered yet."""
    source = "import sys, time\ndef go():\n    sys.pl_started.set(); time.sleep(0.2); sys.pl_ran = True\n"
    put(site, "d-a", "a", source, group=GENERAL)
    sys.pl_ran, sys.pl_started = False, threading.Event()  # type: ignore[attr-defined]
    first = threading.Thread(target=plugins.load_general_plugins)
    first.start()
    assert sys.pl_started.wait(10)  # type: ignore[attr-defined]
    plugins.load_general_plugins()
    assert sys.pl_ran is True  # type: ignore[attr-defined]
    first.join()


def test_waiting_for_general_plugins_ends_with_an_error(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A general plugin that hangs is named to the thread that waits."""
    source = "import sys\ndef go():\n    sys.pl_started.set(); sys.pl_go_on.wait(10)\n"
    put(site, "d-a", "slow", source, group=GENERAL)
    sys.pl_started, sys.pl_go_on = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    monkeypatch.setenv("PLATFORM_ABC_RESOLUTION_TIMEOUT", "0.1")
    first = threading.Thread(target=plugins.load_general_plugins, name="first-one")
    first.start()
    assert sys.pl_started.wait(10)  # type: ignore[attr-defined]
    with pytest.raises(ResolutionError, match=r"'first-one'.*general plugin slow \(d-a 1.0\)"):
        plugins.load_general_plugins()
    sys.pl_go_on.set()  # type: ignore[attr-defined]
    first.join()


def test_a_half_imported_plugin_is_called_that(tmp_path: Path) -> None:
    """Importing the plugin first, which reads the platform at its top, leaves it without its function."""
    distribution(
        tmp_path,
        "early",
        entry_points={GROUP: {"early": "early_plugin:register"}},
        modules={
            "early_plugin.py": "from platforms import current_platform\ndef register(): return None\n",
        },
    )
    ended = fresh(tmp_path, "import early_plugin", PLATFORM_ABC_LOGGING_LEVEL="WARNING")
    assert "plugin early (early 1.0) failed to load" in ended.stderr
    assert "reads the platform while it is itself being imported" in ended.stderr
