"""The outcome tables of our own platforms: quiet where they are right, skipped where the device is absent."""

from __future__ import annotations

import importlib.util

import pytest

from conformance.model import CheckResult, Outcome
from tests.outcomes.native import PLATFORMS, applicable, recorded, results, table

pytestmark = pytest.mark.torch


def _on_an_accelerator() -> bool:
    import torch

    return torch.cuda.is_available() or torch.xpu.is_available()


@pytest.mark.parametrize(
    "platform",
    [
        # CUDA stands for those without a device; the others' are compared before a change lands.
        pytest.param(one, marks=[pytest.mark.deep] if one in ("rocm", "xpu", "tpu") else [])
        for one in PLATFORMS
    ],
)
def test_outcomes_are_as_recorded(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check has the recorded outcome, on a machine without accelerators."""
    if platform not in ("cpu", "unspecified") and _on_an_accelerator():
        pytest.skip("the tables are of a machine without accelerators")
    if platform == "tpu" and importlib.util.find_spec("tpu_inference"):
        pytest.skip("the table is of a machine without tpu_inference")
    if (
        platform != "cpu"
    ):  # the same lines run again; from some hundred forks coverage takes as long as they do
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    found = results(platform)
    assert table(found) == recorded(platform), _texts(found)


def _texts(found: dict[str, CheckResult] | object) -> str:
    assert isinstance(found, dict)
    return "\n".join(
        f"{one.check.id}: {one.outcome.value} {one.reason} {one.findings} {one.traceback}"
        for one in found.values()
        if one.outcome in (Outcome.FAIL, Outcome.ERROR)
    )


def test_the_cpu_is_conformant_at_every_level() -> None:
    """No check of the CPU platform fails, errs, is skipped or not run."""
    assert set(recorded("cpu").values()) == {"pass", "unsupported"}


@pytest.mark.parametrize("platform", ["cuda", "rocm", "xpu", "tpu"])
def test_an_absent_device_is_a_partial_verdict_without_failures(platform: str) -> None:
    """Without the device no check fails, and those of the device are skipped."""
    outcomes = recorded(platform)
    assert set(outcomes.values()) <= {"pass", "unsupported", "skipped"}
    assert outcomes["device.memory"] == "skipped"


def test_unspecified_fails_once() -> None:
    """The placeholder platform is not conformant, for one cause."""
    outcomes = recorded("unspecified")
    assert [name for name, outcome in outcomes.items() if outcome == "fail"] == ["platform.specified"]


def test_tables_hold_every_check() -> None:
    """A new check is not forgotten in the tables."""
    for platform in PLATFORMS:
        assert set(recorded(platform)) == set(applicable())
