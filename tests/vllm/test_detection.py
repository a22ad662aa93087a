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

    def write(name, body, before=""):
        folder = tmp_path / f"chip_{name}"
        folder.mkdir()
        (folder / "__init__.py").write_text(f"{before}def register():\n    {body}\n")
        (folder / "platform.py").write_text(PLATFORM)
        metadata = tmp_path / f"chip_{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: chip-{name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[vllm.platform_plugins]\nchip = chip_{name}:register\n")
        return tmp_path

    return write


def _detection(judge, package, name, body, before=""):
    chosen = [
        word
        for family in ("detection", "activation", "import-order")
        for word in ("--conformance-select", f"{family}.*")
    ]
    run = judge(f"chip_{name}.platform:ChipPlatform", *chosen, path=package(name, body, before))
    return run, {
        key: value
        for key, value in run.outcomes().items()
        if key.partition(".")[0] in ("detection", "activation", "import-order")
    }


def _failed(outcomes):
    return [name for name, outcome in outcomes.items() if outcome in ("fail", "error")]


def test_a_right_detector_is_found_and_wins(judge, package):
    """A plugin whose detector names its class passes: vLLM resolves it in a fresh process."""
    _, outcomes = _detection(judge, package, "good", 'return "chip_good.platform.ChipPlatform"')
    assert set(outcomes.values()) == {"pass", "unsupported"}
    assert outcomes["detection.resolves"] == "pass"


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


YES = 'return "chip_{}.platform.ChipPlatform"'


def test_a_package_that_imports_the_engine_first_is_named(judge, package):
    """Imported before vLLM, such a package makes vLLM choose its platform while `register` is not there yet."""
    _, outcomes = _detection(judge, package, "first", YES.format("first"), "import vllm.config\n\n\n")
    assert _failed(outcomes) == ["import-order.plugin-first"]


def test_a_detector_that_asks_for_the_platform_is_named(judge, package):
    """It makes vLLM resolve inside its own resolution, again and again."""
    body = f"import vllm.platforms\n    vllm.platforms.current_platform\n    {YES.format('nested')}"
    _, outcomes = _detection(judge, package, "nested", body)
    assert _failed(outcomes) == ["detection.resolves"]


def test_a_detector_that_works_for_the_engine_is_named(judge, package):
    """What it imports of vLLM is half imported while vLLM asks it."""
    body = f"import vllm.model_executor.layers.quantization\n    {YES.format('busy')}"
    _, outcomes = _detection(judge, package, "busy", body)
    assert _failed(outcomes) == ["activation.engine-imports"]


def test_logging_that_a_package_configures_anew_is_named(judge, package):
    """A plugin that runs vLLM's own logging configuration again replaces what the user has set."""
    before = (
        "from logging.config import dictConfig\n"
        "from vllm.logger import DEFAULT_LOGGING_CONFIG\n"
        "dictConfig(DEFAULT_LOGGING_CONFIG)\n\n\n"
    )
    _, outcomes = _detection(judge, package, "logs", YES.format("logs"), before)
    assert _failed(outcomes) == ["activation.logging"]
