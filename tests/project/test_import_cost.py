"""Importing our packages is cheap, loads no torch, and chooses no platform."""

from __future__ import annotations

import json
import re

import pytest

from tests.project.trees import PACKAGES, python

OWN_SELF_TIME_MS = 15.0
LIGHT = ["platform_abc", "platforms", "platform_abc._shim", "platforms.detectors"]


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_load_neither_torch_nor_the_kit(module):
    """The contract, the platforms and the shim are imported everywhere: they load nothing heavy."""
    heavy = ["torch", "numpy", "pytest", "conformance", "vllm", "rich", "typer"]
    told = python(
        "-c", f"import sys, json, {module}; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    )
    assert json.loads(told) == []


def test_own_modules_cost_less_than_15_ms_of_self_time():
    """`import platform_abc`, byte-compiled: the modules of ours together cost under 15 ms."""
    sums = []
    for _ in range(8):  # the first run compiles; a busy machine only ever adds
        told = python("-X", "importtime", "-c", "import platform_abc")
        lines = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", told, re.MULTILINE)
        sums.append(sum(int(us) for us, name in lines if name.partition(".")[0] in PACKAGES) / 1000)
    assert 0 < min(sums[1:]) < OWN_SELF_TIME_MS, sums


def test_the_first_read_loads_nothing_that_it_does_not_need():
    """Choosing the CPU imports no torch, and leaves attrs and the report to who asks for them."""
    spared = ["torch", "attrs", "attr", "platform_abc.resolution_report", "platform_abc.config", "uuid"]
    program = (
        "import sys, json\nearlier = set(sys.modules)\nimport platforms\n"
        "platforms.current_platform\n"
        f"spared = [m for m in {spared} if m in sys.modules and m not in earlier]\n"
        "print(json.dumps([spared, platforms.resolution_report().chosen]))"
    )
    told = python("-c", program, env={"PLATFORM_ABC_PLUGINS": "", "PLATFORM_ABC_TARGET_DEVICE": "cpu"})
    assert json.loads(told) == [[], "platforms.cpu.CpuPlatform"]


@pytest.mark.torch
def test_importing_every_module_resolves_no_platform():
    """No module of ours reads `current_platform` when it is imported, but the one whose import loads the kernels."""
    program = """
import importlib, json, pkgutil, sys
import platforms
failed = {}
count = 0
for top in ("platform_abc", "platforms", "reference_model", "reference_engine", "conformance"):
    package = importlib.import_module(top)
    for found in pkgutil.walk_packages(package.__path__, top + "."):
        # Importing the module of custom ops is the moment at which the contract has kernels imported.
        if found.name.endswith("__main__") or found.name == "reference_model.custom_ops":
            continue
        count += 1
        try:
            importlib.import_module(found.name)
        except ImportError as error:  # an engine or a driver that is not installed
            failed[found.name] = str(error)
        assert "current_platform" not in vars(platforms), found.name
print(json.dumps({"count": count, "failed": failed}))
"""
    told = json.loads(python("-W", "ignore", "-c", program).splitlines()[-1])
    assert told["count"] > 50
    assert not told["failed"], "modules import without engines and drivers; they need them when they are used"
