"""Detection of out-of-tree platforms of vLLM: packages with an entry point, on the import path."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.vllm

PLATFORM = """
from vllm.platforms.cpu import CpuPlatform


class ChipPlatform(CpuPlatform):
    device_name = "cpu"
"""


@pytest.fixture
def package(tmp_path):
    """Writes an installed package `chip_<name>` whose detector has the given body."""

    def write(name, body):
        folder = tmp_path / f"chip_{name}"
        folder.mkdir()
        (folder / "__init__.py").write_text(f"def register():\n    {body}\n")
        (folder / "platform.py").write_text(PLATFORM)
        metadata = tmp_path / f"chip_{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: chip-{name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[vllm.platform_plugins]\nchip = chip_{name}:register\n")
        return tmp_path

    return write


def _detection(judge, package, name, body):
    run = judge(
        f"chip_{name}.platform:ChipPlatform", "--conformance-select", "detection.*", path=package(name, body)
    )
    return run, {key: value for key, value in run.outcomes().items() if key.startswith("detection.")}


def test_a_right_detector_is_found_and_wins(judge, package):
    """A plugin whose detector names its class passes: vLLM resolves it in a fresh process."""
    _, outcomes = _detection(judge, package, "good", 'return "chip_good.platform.ChipPlatform"')
    assert set(outcomes.values()) == {"pass"}


def test_a_raising_detector_is_named(judge, package):
    """vLLM swallows a detector's exception and falls back silently; the kit says what it raised."""
    run, outcomes = _detection(judge, package, "raising", 'raise RuntimeError("driver not found")')
    assert outcomes["detection.detector"] == "fail"
    assert "driver not found" in run.out


def test_a_detector_that_names_nothing_is_named(judge, package):
    """A dotted name that leads nowhere stops the import of vLLM; the kit says which detector gave it."""
    run, outcomes = _detection(judge, package, "badname", 'return "chip_badname.platforms.ChipPlatform"')
    assert outcomes["detection.resolves"] == "fail"
    assert "chip_badname.platforms" in run.out
