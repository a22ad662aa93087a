"""The kit's verdicts on vLLM's own platforms, at level contract."""

from __future__ import annotations

import json

import pytest

from tests.outcomes.vllm import path

pytestmark = pytest.mark.vllm

LEVEL = ("--conformance-level", "contract")


def _failures(run):
    return [name for name, outcome in run.outcomes().items() if outcome in ("fail", "error")]


@pytest.fixture(scope="module")
def cpu(judge):
    return judge("vllm.platforms.cpu:CpuPlatform", *LEVEL)


def test_the_cpu_platform_is_conformant(cpu):
    """vLLM's CPU platform breaks nothing, and nothing of it stays unjudged on any machine."""
    assert cpu.report["verdict"] == "conformant", cpu.out
    assert cpu.code == 0


def test_the_cpu_platforms_outcomes_are_the_committed_ones(cpu):
    """Each check says of vLLM 0.32.0's CPU platform what the committed table says, no more and no less."""
    version = cpu.report["engine"]["version"]
    table = path(version)
    if not table.exists():
        pytest.skip(f"no outcomes of vLLM {version} are committed")
    assert cpu.outcomes() == json.loads(table.read_text())


def test_the_report_names_engine_and_class(cpu):
    """The report says which vLLM it ran on, also where the distribution is not called `vllm`."""
    assert cpu.report["engine"]["name"] == "vllm"
    assert cpu.report["engine"]["version"][0].isdigit()
    assert cpu.report["platform"]["qualname"] == "vllm.platforms.cpu.CpuPlatform"


def test_the_zen_platform_has_no_failure(judge):
    """vLLM's Zen platform breaks nothing; off an AMD machine its detection is skipped."""
    run = judge("vllm.platforms.zen_cpu:ZenCpuPlatform", *LEVEL)
    assert _failures(run) == []
    assert run.report["verdict"] in ("partial", "conformant")


def test_the_unspecified_platform_fails_once(judge):
    """The placeholder is not conformant, for one cause, and the text says which."""
    run = judge("vllm.platforms.interface:UnspecifiedPlatform", *LEVEL)
    assert run.report["verdict"] == "not conformant"
    assert run.code == 1
    assert _failures(run) == ["platform.specified"]
    assert "placeholder" in run.out


def test_a_platform_that_lacks_a_compiled_module_fails_once(judge):
    """A platform of another device, which a CPU build cannot import, is one failure that names the module."""
    run = judge("vllm.platforms.xpu:XPUPlatform", *LEVEL)
    if run.report["verdict"] != "not conformant":
        pytest.skip("this vLLM has the modules of XPU")
    assert _failures(run) == ["platform.importable"]
    assert "vllm_xpu_kernels" in run.out
    assert set(run.outcomes().values()) == {"fail", "not-run"}
