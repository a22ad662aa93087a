"""Every rule by which one platform is chosen, on detectors made for the test."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_abc.candidates import Candidate, Detector
from platform_abc.errors import ResolutionError
from platform_abc.reasons import explain
from platform_abc.resolution import Resolution, resolve
from tests.platform_abc.fake_distributions import distribution
from tests.platform_abc.resolution_parts import (  # noqa: F401  fixtures are found by name
    GROUP,
    MEMBERS,
    answer,
    module_fixture,
    put,
    raising,
    site_fixture,
    spec,
)

# ------------------------------------------------------------------------------- who wins


def test_the_one_active_builtin_detector_wins(caplog: pytest.LogCaptureFixture) -> None:
    """Its class is made, at DEBUG level."""
    with caplog.at_level(logging.DEBUG):
        platform, report = resolve(spec(a=answer(None), b=answer("rs_platforms.One")))
    assert type(platform).__name__ == "One"
    assert (report.winner, report.chosen) == ("b", "rs_platforms.One")
    assert [each.state for each in report.detectors] == ["inactive", "active"]
    (record,) = [each for each in caplog.records if "detected platform b" in each.getMessage()]
    assert record.levelno == logging.DEBUG


def test_an_out_of_tree_detector_wins_over_builtin_ones(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However many built-in ones are active; logged as activated at INFO, with its distribution."""
    put(site, "npu", "return 'rs_platforms.Two'", version="3.1")
    with caplog.at_level(logging.INFO):
        platform, report = resolve(spec(a=answer("rs_platforms.One"), b=answer("rs_platforms.One")))
    assert type(platform).__name__ == "Two"
    assert (
        report.why
        == "the out-of-tree detector npu (npu-dist 3.1) is active, which wins over the built-in a, b"
    )
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "npu (npu-dist 3.1) is activated" in record.getMessage()


def test_builtin_detectors_run_first_in_their_order(site: Path) -> None:
    """Then the out-of-tree ones; the report keeps the order."""
    asked: list[str] = []
    put(site, "aaa", "return None")
    _, report = resolve(
        spec(z=lambda: asked.append("z"), y=lambda: asked.append("y"), x=lambda: asked.append("x"))
    )
    assert asked == ["z", "y", "x"]
    assert [each.name for each in report.detectors] == ["z", "y", "x", "aaa"]


def test_two_out_of_tree_detectors_are_an_error_in_sorted_order(site: Path) -> None:
    """Whatever order the path gives; both are named with their distributions, and what to do."""
    put(site, "zeta", "return 'rs_platforms.One'")
    put(site, "alpha", "return 'rs_platforms.Two'")
    with pytest.raises(ResolutionError) as caught:
        resolve(spec(a=answer("rs_platforms.One")))
    assert "alpha (alpha-dist 1.0), zeta (zeta-dist 1.0)" in str(caught.value)
    assert "PLATFORM_ABC_PLUGINS" in str(caught.value)


def test_two_builtin_detectors_are_an_error_in_sorted_order() -> None:
    """Neither is chosen silently."""
    with pytest.raises(ResolutionError, match="only one built-in platform can be active.*: a, b"):
        resolve(spec(b=answer("rs_platforms.One"), a=answer("rs_platforms.Two")))


def test_one_name_in_two_distributions_is_an_error_when_both_answer(site: Path) -> None:
    """A shared name hides no detector."""
    put(site, "npu", "return 'rs_platforms.One'", dist="vendor-b")
    put(site, "npu", "return 'rs_platforms.Two'", dist="vendor-a")
    with pytest.raises(ResolutionError, match=r"npu \(vendor-a 1.0\), npu \(vendor-b 1.0\)"):
        resolve(spec())


def test_a_plugin_may_share_its_name_with_a_builtin_detector(site: Path) -> None:
    """It is out-of-tree all the same, and wins."""
    put(site, "cpu", "return 'rs_platforms.Two'")
    platform, _ = resolve(spec(cpu=answer("rs_platforms.One")))
    assert type(platform).__name__ == "Two"


def test_no_active_detector_gives_the_unspecified_platform(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that says what was tried and why each did not answer."""

    def without_driver() -> str | None:
        explain("no driver")
        return None

    put(site, "npu", "raise OSError('sysfs not mounted')")
    platform, report = resolve(spec(a=without_driver, b=without_driver, c=answer(None)))
    assert type(platform).__name__ == "Nothing"
    warning = caplog.messages[-1]
    assert "a, b (no driver)" in warning
    assert "c (answered None)" in warning
    assert "npu (npu-dist 1.0) (failed with OSError: sysfs not mounted)" in warning
    assert warning in report.warnings


@given(st.lists(st.booleans(), max_size=5), st.lists(st.booleans(), max_size=4))
def test_at_most_one_wins_and_never_by_chance(builtins: list[bool], outside: list[bool]) -> None:
    """For every combination of answers: out-of-tree first, two are an error, none is unspecified."""
    detectors = {
        f"b{i}": answer(f"rs_platforms.{'One' if on else ''}" if on else None)
        for i, on in enumerate(builtins)
    }
    candidates = [
        Candidate(f"o{i}", answer("rs_platforms.Two" if on else None), "x:y", _plugin(f"o{i}"))
        for i, on in enumerate(outside)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Resolution, "_load_plugins", lambda self: (candidates, []))
        if sum(outside) > 1 or (not any(outside) and sum(builtins) > 1):
            with pytest.raises(ResolutionError, match="only one"):
                resolve(spec(**detectors))
            return
        platform, report = resolve(spec(**detectors))
    expected = "Two" if any(outside) else "One" if any(builtins) else "Nothing"
    assert type(platform).__name__ == expected
    assert report.chosen == f"rs_platforms.{expected}"


def _plugin(name: str) -> object:
    from platform_abc.plugins import Plugin

    return Plugin(name, GROUP, "x:y", f"{name}-dist", "1")


# ------------------------------------------------------------------------------- the target


def test_a_forced_cpu_runs_nothing_else(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the other detectors nor any plugin; not even their modules are imported."""
    put(site, "npu", "raise RuntimeError\ndef register(): pass")
    asked: list[str] = []

    def cpu() -> str | None:
        asked.append("cpu")
        return "rs_platforms.One"

    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    platform, report = resolve(spec(a=lambda: asked.append("a"), cpu=cpu))
    assert asked == ["cpu"]
    assert type(platform).__name__ == "One"
    assert "npu_rs_plugin" not in sys.modules
    assert [(each.name, each.state) for each in report.detectors] == [("a", "not-asked"), ("cpu", "active")]


def test_a_forced_target_whose_detector_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not replaced by whatever else is there."""
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    with pytest.raises(ResolutionError, match="'cpu' answered None"):
        resolve(spec(cpu=answer(None), a=answer("rs_platforms.One")))
    with pytest.raises(ResolutionError, match="'cpu' failed: ValueError: x"):
        resolve(spec(cpu=raising(ValueError("x"))))


def test_another_target_is_an_error_that_lists_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked."""
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cuda")
    with pytest.raises(ResolutionError, match="PLATFORM_ABC_TARGET_DEVICE='cuda'.*auto, cpu"):
        resolve(spec(a=answer("rs_platforms.One")))


@pytest.mark.parametrize("value", ["", "auto", "AUTO"])
def test_auto_detects(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """As an unset variable does."""
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", value)
    assert resolve(spec(a=answer("rs_platforms.One")))[1].winner == "a"


# ------------------------------------------------------------------------------- failing detectors


class _Panic(BaseException):
    """What a foreign runtime may throw through Python."""


@pytest.mark.parametrize(
    "error", [ValueError("x"), ImportError("x"), SystemExit(2), _Panic("x"), RecursionError("x")]
)
def test_an_exception_counts_as_not_active(error: BaseException) -> None:
    """Whatever is raised, also an attempt to end the process, the others are asked."""
    platform, report = resolve(spec(bad=raising(error), good=answer("rs_platforms.One")))
    assert type(platform).__name__ == "One"
    assert report.detectors[0].state == "failed"
    assert report.detectors[0].error == f"{type(error).__name__}: {error}"
    assert "Traceback" in report.detectors[0].traceback


def test_an_interrupt_passes() -> None:
    """Ctrl-C during detection ends it."""
    with pytest.raises(KeyboardInterrupt):
        resolve(spec(bad=raising(KeyboardInterrupt())))


def test_a_failing_out_of_tree_detector_is_a_warning(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It names the plugin, its distribution, the reason, and how to see the traceback."""
    put(site, "npu", "raise OSError('no /dev/npu0')", version="4.2")
    _, report = resolve(spec(a=answer("rs_platforms.One")))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for part in ("npu (npu-dist 4.2)", "OSError: no /dev/npu0", "python -m platform_abc"):
        assert part in record.getMessage()
    assert any("npu (npu-dist 4.2)" in each for each in report.warnings)


def test_a_failing_builtin_detector_stays_debug(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can act on it, so nobody is told, unless asked."""
    with caplog.at_level(logging.DEBUG):
        resolve(spec(bad=raising(OSError("driver")), good=answer("rs_platforms.One")))
    (record,) = [each for each in caplog.records if "built-in detector bad failed" in each.getMessage()]
    assert record.levelno == logging.DEBUG
    assert not [each for each in caplog.records if each.levelno > logging.DEBUG]


def test_a_plugin_that_does_not_load_stands_in_the_report(site: Path) -> None:
    """With its error and traceback, as a detector that failed."""
    put(site, "npu", "import vendor_sdk_that_is_missing\ndef register(): pass")
    _, report = resolve(spec(a=answer("rs_platforms.One")))
    failed = report.detectors[-1]
    assert (failed.name, failed.state, failed.distribution) == ("npu", "failed", "npu-dist 1.0")
    assert "vendor_sdk_that_is_missing" in failed.traceback


def test_a_filtered_plugin_stands_in_the_report(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kept out, so that nobody wonders where it is."""
    put(site, "npu", "return 'rs_platforms.Two'")
    monkeypatch.setenv("PLATFORM_ABC_PLUGINS", "")
    platform, report = resolve(spec(a=answer("rs_platforms.One")))
    assert type(platform).__name__ == "One"
    assert ("npu", "filtered") in [(each.name, each.state) for each in report.detectors]
    assert report.variables == {"PLATFORM_ABC_PLUGINS": ""}


# ------------------------------------------------------------------------------- asked twice


def _in_turn(*answers: object) -> Detector:
    left = list(answers)

    def detector() -> str | None:
        given = left.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given  # type: ignore[return-value]

    return detector


def test_the_winner_is_asked_again_and_nobody_else() -> None:
    """Twice the winner, once every other one."""
    asked: list[str] = []

    def counted(name: str, value: str | None) -> Detector:
        def detector() -> str | None:
            asked.append(name)
            return value

        return detector

    resolve(spec(a=counted("a", None), b=counted("b", "rs_platforms.One"), c=counted("c", None)))
    assert sorted(asked) == ["a", "b", "b", "c"]


@pytest.mark.parametrize("second", ["rs_platforms.Two", None, "", 3, ValueError("gone")])
def test_a_winner_that_answers_differently_is_an_error(second: object) -> None:
    """Another name, no name, or an exception the second time: both answers are shown."""
    with pytest.raises(ResolutionError, match="'rs_platforms.One' when first asked"):
        resolve(spec(a=_in_turn("rs_platforms.One", second)))


def test_an_engine_that_takes_the_second_answer_is_explained_so() -> None:
    """The same code explains engines that do not compare."""
    loose = spec(a=_in_turn("rs_platforms.One", "rs_platforms.Two"))._replace(same_answer_twice=False)
    assert resolve(loose)[1].chosen == "rs_platforms.Two"


def test_an_engine_that_exits_with_its_detector_is_explained_so() -> None:
    """Where the engine catches only exceptions, `SystemExit` ends it."""
    fragile = spec(a=raising(SystemExit(3)))._replace(survives_exit=False)
    with pytest.raises(ResolutionError, match="raised SystemExit: 3, which platform-abc does not catch"):
        resolve(fragile)


# ------------------------------------------------------------------------------- the report


def test_only_resolution_errors_come_out_and_carry_the_report() -> None:
    """With everything asked until then, and the error itself."""
    with pytest.raises(ResolutionError) as caught:
        resolve(spec(b=answer("rs_platforms.One"), a=answer("rs_platforms.Two")))
    report = caught.value.report
    assert report is not None
    assert [each.state for each in report.detectors] == ["active", "active"]
    assert report.error == str(caught.value)
    assert report.chosen == ""
    assert "ResolutionError" in report.traceback


def test_a_detector_explains_itself_once(caplog: pytest.LogCaptureFixture) -> None:
    """Its reasons stand in the report; the second asking repeats neither reason nor warning."""

    def detector() -> str | None:
        explain("the library is old", warn=True)
        explain("one device")
        return "rs_platforms.One"

    _, report = resolve(spec(a=detector))
    assert report.detectors[0].reasons == ("the library is old", "one device")
    assert report.warnings == ("the library is old",)
    assert caplog.messages.count("the library is old") == 1


def test_what_the_engine_logs_becomes_reasons() -> None:
    """For engines whose detectors log; the logger is left as it was, and nothing is printed twice."""
    listened = logging.getLogger("rs_engine.platforms")

    def detector() -> str | None:
        listened.debug("found %d", 1)
        return "rs_platforms.One"

    before = (listened.level, listened.propagate, list(listened.handlers))
    _, report = resolve(spec(a=detector)._replace(reasons_logger="rs_engine.platforms"))
    assert report.detectors[0].reasons == ("found 1",)
    assert (listened.level, listened.propagate, list(listened.handlers)) == before


def test_what_the_engine_logs_is_shown_as_it_would_have_been(caplog: pytest.LogCaptureFixture) -> None:
    """Its warning once, its debug message not, at the level that was set."""
    listened = logging.getLogger("rs_engine.platforms")

    def detector() -> str | None:
        listened.debug("a detail")
        listened.warning("an old driver")
        return None

    with caplog.at_level(logging.WARNING, "rs_engine"):
        resolve(spec(a=detector, b=answer("rs_platforms.One"))._replace(reasons_logger="rs_engine.platforms"))
    assert caplog.messages == ["an old driver"]


def test_the_environment_that_matters_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that are set, packages that are installed; nothing else of the environment."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("PLATFORM_ABC_ODD", "1")
    monkeypatch.setenv("A_SECRET_TOKEN", "s3cret")
    _, report = resolve(spec(a=answer("rs_platforms.One")))
    assert report.variables == {"JAX_PLATFORMS": "cpu", "PLATFORM_ABC_ODD": "1"}
    assert set(report.packages) == {"attrs"}
    assert "s3cret" not in report.to_json()


def test_progress_is_told_before_each_step(site: Path) -> None:
    """So that a death can be blamed on what was about to run."""
    put(site, "npu", "return 'rs_platforms.Two'")
    told: list[str] = []
    resolve(spec(a=answer(None)), progress=lambda step, subject: told.append(f"{step} {subject}"))
    assert told == [
        "loading the plugins of platform_abc.platform_plugins",
        "importing plugin npu (npu-dist 1.0)",
        "asking detector a",
        "asking detector npu (npu-dist 1.0)",
        "asking again detector npu (npu-dist 1.0)",
        "importing platform rs_platforms.Two",
        "making platform rs_platforms.Two",
    ]


def test_time_is_measured_for_each_detector() -> None:
    """In seconds, and no more than the whole."""

    def slow() -> str | None:
        time.sleep(0.02)
        return None

    _, report = resolve(spec(slow=slow, quick=answer("rs_platforms.One")))
    assert report.detectors[0].seconds >= 0.02
    assert report.detectors[0].seconds > report.detectors[1].seconds
    assert sum(each.seconds for each in report.detectors) <= report.seconds


def test_the_distribution_of_the_winner_is_named_in_its_errors(site: Path) -> None:
    """Its name alone may be that of a built-in detector."""
    put(site, "cpu", "return 'rs_platforms.Nope'", dist="vendor")
    with pytest.raises(ResolutionError, match=r"detector cpu \(vendor 1.0\) chose"):
        resolve(spec(cpu=answer("rs_platforms.One")))


def test_damaged_entry_points_are_among_the_warnings(site: Path) -> None:
    """The report says whose plugins are missing, and what to do."""
    damaged = distribution(site, "broken")
    (damaged / "entry_points.txt").write_text(f"[{GROUP}]\nnpu broken:register\n")
    _, report = resolve(spec(a=answer("rs_platforms.One")))
    (warning,) = report.warnings
    assert "broken-1.0.dist-info cannot be read, so its plugins are not there" in warning
    assert "install that distribution again" in warning


def test_the_error_and_its_report_survive_pickling_and_copying() -> None:
    """It comes back from a worker process with everything that explains it."""
    import copy
    import pickle

    with pytest.raises(ResolutionError) as caught:
        resolve(spec(a=answer("nodots")))
    for again in (
        pickle.loads(pickle.dumps(caught.value)),
        copy.copy(caught.value),
        copy.deepcopy(caught.value),
    ):
        assert type(again) is ResolutionError
        assert str(again) == str(caught.value)
        assert again.report == caught.value.report
        assert again.report is not None
