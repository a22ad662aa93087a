"""A report goes through JSON unchanged, reads well, and two of them tell what differs."""

from __future__ import annotations

import json
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_abc.errors import ResolutionError
from platform_abc.resolution_report import DetectorOutcome, ResolutionReport, require_same_platform

TEXTS = st.text(max_size=20)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)
OUTCOMES = st.builds(
    DetectorOutcome,
    name=TEXTS,
    kind=st.sampled_from(["built-in", "out-of-tree"]),
    source=TEXTS,
    distribution=TEXTS,
    state=st.sampled_from(["active", "inactive", "failed", "filtered", "not-asked"]),
    answer=st.none() | TEXTS,
    error=TEXTS,
    traceback=TEXTS,
    reasons=st.lists(TEXTS, max_size=3).map(tuple),
    seconds=st.floats(0, 1e6),
)
REPORTS = st.builds(
    ResolutionReport,
    engine=TEXTS,
    detectors=st.lists(OUTCOMES, max_size=4).map(tuple),
    winner=TEXTS,
    chosen=TEXTS,
    why=TEXTS,
    error=TEXTS,
    traceback=TEXTS,
    warnings=st.lists(TEXTS, max_size=3).map(tuple),
    first_read=st.lists(TEXTS, max_size=3).map(tuple),
    variables=MAPS,
    packages=MAPS,
    process=MAPS,
    seconds=st.floats(0, 1e6),
)


@given(REPORTS)
def test_json_and_pickle_give_the_report_back(report: ResolutionReport) -> None:
    """Whatever it holds; and it can always be rendered."""
    assert ResolutionReport.from_json(report.to_json()) == report
    assert pickle.loads(pickle.dumps(report)) == report
    assert report.render(tracebacks=True).endswith("\n")


@given(
    st.text()
    | st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner)).map(json.dumps)
)
def test_anything_else_is_refused(text: str) -> None:
    """Text that is no report is a ValueError that says so."""
    with pytest.raises(ValueError, match="not a resolution report"):
        ResolutionReport.from_json(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 2),
        ("engine", 3),
        ("detectors", "x"),
        ("detectors", [{}]),
        ("warnings", [1]),
        ("variables", {"a": 1}),
        ("seconds", "1"),
        ("seconds", True),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(field: str, value: object) -> None:
    """The field is named."""
    data = json.loads(ResolutionReport("x").to_json())
    data[field] = value
    with pytest.raises(ValueError, match=field if value != [{}] else "kind"):
        ResolutionReport.from_json(json.dumps(data))


FRONT = ResolutionReport(
    "platform-abc",
    detectors=(DetectorOutcome("npu", "out-of-tree", "npu:register", "npu-dist 1.0", "active", "npu.P"),),
    winner="npu",
    chosen="npu.P",
    variables={"PLATFORM_ABC_PLUGINS": "npu", "JAX_PLATFORMS": "cpu"},
    packages={"npu-dist": "1.0", "torch": "2.13.0"},
    process={"python": "3.11.7", "executable": "/a/python", "pid": "1"},
)


def test_the_same_platform_is_accepted() -> None:
    """Whatever else differs between the processes."""
    worker = attrs.evolve(FRONT, variables={}, packages={}, process={}, detectors=())
    assert worker != FRONT
    try:
        require_same_platform(FRONT, worker)
    except ResolutionError as error:
        refused = str(error)
    else:
        refused = ""
    assert refused == ""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"variables": {"JAX_PLATFORMS": "cpu"}},
            "variable PLATFORM_ABC_PLUGINS is 'npu' in the front end, unset in the worker",
        ),
        (
            {"variables": {**FRONT.variables, "JAX_PLATFORMS": "proxy"}},
            "variable JAX_PLATFORMS is 'cpu' in the front end, 'proxy' in the worker",
        ),
        (
            {"packages": {"torch": "2.13.0"}},
            "package npu-dist is '1.0' in the front end, not installed in the worker",
        ),
        (
            {"packages": {"npu-dist": "1.0", "torch": "2.12.0"}},
            "package torch is '2.13.0' in the front end, '2.12.0' in the worker",
        ),
        (
            {"process": {"python": "3.11.7", "executable": "/b/python"}},
            "executable is '/a/python' in the front end, '/b/python' in the worker",
        ),
        (
            {
                "detectors": (
                    DetectorOutcome("npu", "out-of-tree", "x", "npu-dist 1.0", "failed", error="OSError: x"),
                )
            },
            "detector npu (npu-dist 1.0) is 'npu.P' in the front end, 'OSError: x' in the worker",
        ),
        ({}, "no variable, package or detector differs"),
    ],
)
def test_another_platform_is_an_error_that_says_what_differs(changes: dict[str, object], told: str) -> None:
    """Variable, package, interpreter, or else the detector's answer."""
    worker = attrs.evolve(FRONT, chosen="platforms.cpu.CpuPlatform", **changes)
    with pytest.raises(ResolutionError) as caught:
        require_same_platform(FRONT, worker)
    assert "the front end runs on npu.P but the worker resolved platforms.cpu.CpuPlatform" in str(
        caught.value
    )
    assert told in str(caught.value)


def test_a_worker_without_a_platform_is_an_error() -> None:
    """Its own error is told."""
    worker = attrs.evolve(FRONT, chosen="", error="two are active")
    with pytest.raises(ResolutionError, match=r"no platform \(two are active\)"):
        require_same_platform(FRONT, worker)


def test_two_processes_without_a_platform_are_no_agreement() -> None:
    """Nothing runs on either."""
    broken = attrs.evolve(FRONT, chosen="", error="two are active")
    with pytest.raises(ResolutionError, match="no platform .two are active"):
        require_same_platform(broken, broken)


def test_the_text_shows_what_was_chosen_and_the_tracebacks_of_plugins() -> None:
    """Those of built-in detectors and the first read only when asked for."""
    report = attrs.evolve(
        FRONT,
        why="because",
        detectors=(
            DetectorOutcome("a", "built-in", "a:b", state="failed", error="E: x", traceback="built-in trace"),
            DetectorOutcome(
                "v", "out-of-tree", "v:r", "v 1", "failed", error="E: y", traceback="plugin trace"
            ),
            DetectorOutcome("f", "out-of-tree", "f:r", "f 1", "filtered"),
            *FRONT.detectors,
        ),
        warnings=("careful",),
        first_read=("app.py:3 in main",),
    )
    text = report.render()
    for part in (
        "platform of platform-abc: npu.P",
        "why: because",
        "failed: E: x",
        "plugin trace",
        "careful",
    ):
        assert part in text
    assert "kept out by the plugin filter" in text
    assert " * npu (npu-dist 1.0)" in text
    assert "built-in trace" not in text
    assert "app.py:3" not in text
    full = report.render(tracebacks=True)
    assert "built-in trace" in full
    assert "app.py:3 in main" in full


def test_only_the_winner_is_marked_where_a_plugin_has_the_name_of_a_builtin_detector() -> None:
    """The out-of-tree one has won."""
    report = ResolutionReport(
        engine="platform-abc",
        detectors=(
            DetectorOutcome("cpu", "built-in", "a:b", state="active", answer="a.A"),
            DetectorOutcome("cpu", "out-of-tree", "c:d", "vendor 1.0", state="active", answer="b.B"),
        ),
        winner="cpu",
        chosen="b.B",
    )
    marked = [line for line in report.render().splitlines() if line.startswith(" *")]
    assert len(marked) == 1
    assert "cpu (vendor 1.0)" in marked[0]
