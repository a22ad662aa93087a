"""The adapter beside the installed vLLM: what it builds, swaps, reads and asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conformance.engines.vllm_environment import environment
from conformance.engines.vllm_platform import detects

pytestmark = pytest.mark.vllm


def test_every_case_can_be_built_and_is_untouched(served):
    """Each representative config is built offline, and no hook has chosen a worker in it."""
    workers = served.probe("cases")
    assert next(iter(workers)) == "plain"
    assert workers.pop("user-worker-cls") == "vllm.v1.worker.worker_base.WorkerBase"
    assert set(workers.values()) == {"auto"}


def test_each_case_is_what_its_name_says(served):
    """The configs really have what their names promise; the head size is one that vLLM's CPU runs."""
    assert served.probe("facts_of_cases") == {
        "model-none": True,
        "tensor-parallel": 2,
        "lora": True,
        "quantized": True,
        "user-block-size": [32, True],
        "mla": True,
        "hybrid": True,
        "head size": 32,
    }


def test_the_active_platform_is_seen_everywhere_and_leaves(served):
    """Modules that bound the old platform see the new one, also those imported meanwhile; then all go back."""
    seen = served.probe("current")
    assert seen["before"] == ["NeutralPlatform"] * 2
    assert seen["inside"] == ["CpuPlatform"] * 2
    assert seen["after"] == ["NeutralPlatform"] * 2
    assert seen["left"] == []


def test_the_selectors_cache_does_not_survive_a_change_of_platform(served):
    """vLLM caches what a platform picked; under another platform the question is put anew."""
    first, second, third = served.probe("selector_cache")
    assert (first, second, third) == ("CPUAttentionBackend", "CPUMLABackend", "CPUAttentionBackend")


def test_a_snapshot_shows_what_a_hook_changed(served):
    """The difference of two snapshots names the worker, from auto to the class."""
    changes = served.probe("hook_changes")
    assert changes["parallel_config.worker_cls"] == ["auto", "vllm.v1.worker.cpu_worker.CPUWorker"]
    assert not [name for name in changes if name.startswith("device_config")]


def test_snapshots_compare(served):
    """Two configs of a case are equal, pickling changes nothing, and an added attribute shows."""
    seen = served.probe("snapshots")
    assert seen["equal"]
    assert seen["pickled"]
    assert "parallel_config.surprise" in seen["new"]
    assert seen["list"] == {"list": [1, {"deep": [2, 3]}]}
    assert len(seen["new"]) == 2, "reading a cached property must not look like a change"


def test_validation_names_the_field(served):
    """Untouched configs are valid in every case; a wrong value is named with its field, and not converted."""
    said = served.probe("validation")
    assert set(said) == {"cache_config.block_size", "scheduler_config.max_num_seqs"}
    for field, text in said.items():
        assert text.startswith(f"{field}: ")


def test_the_device_part_is_the_platforms(served):
    """A config gets the device of the platform under test, or the reason why vLLM cannot make it."""
    said = served.probe("device_part")
    assert said["cuda"] == "cuda"
    assert "'myd'" in said["myd"]


def test_members_are_those_of_the_installed_base(served):
    """Kind, group and what is unset or raises come from the installed base and the contract's groups."""
    members = served.probe("members")
    assert members["_enum"] == ["attribute", "identity", True, True, False]
    assert members["supported_dtypes"][0] == "property"
    assert members["is_cuda"][:2] == ["method", "identity"]
    assert members["get_attn_backend_cls"] == ["classmethod", "pickers", False, False, False]
    assert members["manual_seed_all"][4]
    assert members["num_compute_units"][4]
    assert not any(name.startswith("__") for name in members)
    assert "_find_non_ssm_backends" not in members


def test_the_engines_calls_are_read_from_its_source(served):
    """The attention call has its keywords; the memory and name queries of every run are guarded, the seed not."""
    calls = served.probe("calls")
    assert calls["get_attn_backend_cls"] == [
        [1, ["attn_selector_config", "num_heads"], False, False, "vllm/v1/attention/selector.py"]
    ]
    assert [one[2:] for one in calls["get_device_name"]] == [
        [True, False, "vllm/engine/arg_utils.py"],
        [False, False, "vllm/engine/arg_utils.py"],  # for TPUs only
    ]
    assert calls["get_device_communicator_cls"] == [], "one device needs no communicator"
    assert [one[2] for one in calls["manual_seed_all"]] == [False]
    assert any(one[3] for one in calls["device_type"])


def test_the_selectors_questions_have_the_engines_shape(served):
    """Each question goes with one positional argument and two keywords; only the plain one must be answered."""
    questions = served.probe("selector")
    assert questions[0][0] == "plain"
    assert {(one[1], *one[2]) for one in questions} == {(1, "attn_selector_config", "num_heads")}
    assert [one[0] for one in questions if one[3]] == ["plain"]
    assert {"mla", "sparse", "fp8-kv"} <= {one[0] for one in questions}


def test_harmless_arguments_harm_no_good_platform(served):
    """vLLM's own CPU platform takes every call that the adapter makes up."""
    assert served.probe("harmless") == {}


def test_picked_components_have_the_installed_bases(served):
    """What vLLM's CPU platform picks derives from the base that the adapter found, with every name used on it."""
    found = served.probe("components")
    assert found["get_attn_backend_cls"] == ["AttentionBackend", True, []]
    assert found["get_device_communicator_cls"] == ["DeviceCommunicatorBase", True, []]
    assert found["get_punica_wrapper"] == ["PunicaWrapperABC", True, []]
    assert found["worker_cls"] == ["WorkerBase", True, []]
    assert all(derives and not missing for _, derives, missing in found.values())


def test_the_prepared_process_can_be_forked(served):
    """One thread, and no more of the engine than the checks need."""
    process = served.probe("process")
    assert process["threads"] == 1
    assert not process["llm"]
    assert process["calls"] > 1000


def test_importing_the_adapter_imports_no_engine():
    """`conformance.engines.vllm` costs no vLLM and no torch before a method is called."""
    code = "import conformance.engines.vllm, sys; print([m for m in ('vllm', 'torch') if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_detection_sees_the_users_variables_not_the_kits(tmp_path):
    """A fresh process resolves with the plugins and the target that the user had set."""
    users = {**os.environ, "VLLM_PLUGINS": "none-such"}
    users.pop("VLLM_TARGET_DEVICE", None)
    code = (
        "import json, os\n"
        "from conformance.engines.vllm_detection import detect\n"
        "said = detect()\n"
        "print(json.dumps([said, os.environ.get('VLLM_PLUGINS'), os.environ.get('VLLM_TARGET_DEVICE')]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**users, **environment(str(tmp_path), users)},
        capture_output=True,
        text=True,
        check=True,
    )
    said, plugins, target = json.loads(ended.stdout.splitlines()[-1])
    assert (plugins, target) == ("none-such", None)
    assert list(said["detectors"])[:5] == ["tpu", "cuda", "rocm", "xpu", "cpu"]
    assert said["resolved"] == said["detectors"][said["winner"]]


def test_a_class_that_vllms_own_detector_names_is_known():
    """The platform for TPUs ships in a package of its own, and vLLM's own detector names it."""
    named = type("TpuPlatform", (), {"__module__": "tpu_inference.platforms.tpu_platform"})
    other = type("TpuPlatform", (), {"__module__": "chip.platform"})
    assert detects(named)
    assert not detects(other)
