"""The kit's verdicts on vLLM's own platforms, at level contract."""

from __future__ import annotations

import json

import pytest

from tests.outcomes.vllm import PLATFORMS

pytestmark = pytest.mark.vllm

LEVEL = ("--conformance-level", "contract")


def _failures(run):
    return [name for name, outcome in run.outcomes().items() if outcome in ("fail", "error")]


@pytest.fixture(scope="module")
def in_tree(judge):
    """The run of one of vLLM's own platforms, by short name; each is run once."""
    runs = {}

    def run(name):
        if name not in runs:
            runs[name] = judge(PLATFORMS[name].platform, *PLATFORMS[name].options())
        return runs[name]

    return run


@pytest.fixture
def cpu(in_tree):
    return in_tree("cpu")


def test_the_cpu_platform_is_conformant(cpu):
    """vLLM's CPU platform breaks nothing, and nothing of it stays unjudged on any machine."""
    assert cpu.report["verdict"] == "conformant", cpu.out
    assert cpu.code == 0


@pytest.mark.parametrize("name", PLATFORMS)
def test_outcomes_are_the_committed_ones(in_tree, name):
    """Each check says of vLLM's own platform what the committed table says, no more and no less."""
    run = in_tree(name)
    table = PLATFORMS[name].path(run.report["engine"]["version"])
    if not table.exists():
        pytest.skip(f"no outcomes of vLLM {run.report['engine']['version']} are committed")
    if name == "zen" and run.report["verdict"] == "conformant":
        pytest.skip("the table is of a machine where the platform is not chosen")
    assert run.outcomes() == json.loads(table.read_text()), run.out


@pytest.mark.parametrize("name", PLATFORMS)
def test_vllms_own_platforms_raise_no_alarm(in_tree, name):
    """Where its device is missing, a platform of vLLM is partial, without a failure that is not known."""
    run = in_tree(name)
    assert _failures(run) == [], run.out
    assert run.report["verdict"] in ("partial", "conformant")
    assert run.code == 0


@pytest.mark.parametrize("name", [name for name, one in PLATFORMS.items() if one.stub])
def test_the_report_says_what_stands_in(in_tree, name):
    """A run with stand-ins for compiled modules names them."""
    run = in_tree(name)
    assert run.report["environment"]["stubs"] == list(PLATFORMS[name].stub)
    assert f"stand-in for {PLATFORMS[name].stub[0]}" in run.out


def test_rocm_grows_a_list(in_tree):
    """The defaults hook of vLLM's ROCm platform appends the same entry each time it is called, as is known."""
    entry = next(one for one in in_tree("rocm").report["checks"] if one["id"] == "config.defaults-idempotent")
    assert entry["outcome"] == "xfail"
    assert [one["member"] for one in entry["findings"]] == ["apply_config_platform_defaults"]
    assert entry["platform_did"].count("+sparse_attn_indexer") == 3


def test_the_report_names_engine_and_class(cpu):
    """The report says which vLLM it ran on, also where the distribution is not called `vllm`."""
    assert cpu.report["engine"]["name"] == "vllm"
    assert cpu.report["engine"]["version"][0].isdigit()
    assert cpu.report["platform"]["qualname"] == "vllm.platforms.cpu.CpuPlatform"


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
