"""The native adapter: members, configs, questions and detection of our own engine."""

from __future__ import annotations

import pickle

import pytest

import platforms
from conformance.engines.native import NativeAdapter, adapter, resolve_here
from platform_abc.members import MEMBERS

pytestmark = pytest.mark.torch


@pytest.fixture
def native() -> NativeAdapter:
    """The adapter."""
    return adapter()


def test_members_are_those_of_the_contract(native: NativeAdapter) -> None:
    """Every public member of the contract is there, with its kind and its group."""
    members = native.members()
    assert set(MEMBERS) - set(members) == {"__getattr__", "_global_graph_pool"}
    assert (members["set_device"].kind, members["set_device"].group, members["set_device"].raises) == (
        "classmethod",
        "device",
        True,
    )
    assert members["device_type"].unset


def test_default_lists_are_copies(native: NativeAdapter) -> None:
    """What a platform later appends to the base's list does not show in the member."""
    base = native.base_class()
    assert native.members()["additional_env_vars"].value == []
    assert native.members()["additional_env_vars"].value is not vars(base.__mro__[1]).get(
        "additional_env_vars"
    )


def test_every_case_is_valid_and_pickles(native: NativeAdapter) -> None:
    """The configs are sound before any hook sees them, so that what is found later is the hooks' doing."""
    for case in native.config_cases():
        config = native.config(case)
        native.validate_config(config)
        assert native.snapshot(pickle.loads(pickle.dumps(config))) == native.snapshot(config), case
        expected = "auto" if case != "user-worker-cls" else native.worker_cls_field(config)
        assert native.worker_cls_field(config) == expected


def test_configs_are_made_anew(native: NativeAdapter) -> None:
    """Two configs of a case share no part."""
    one, other = native.config("plain"), native.config("plain")
    assert one.compilation_config.custom_ops is not other.compilation_config.custom_ops


def test_cases_without_a_part_lack_it(native: NativeAdapter) -> None:
    """A case that ends in `-none` has None where its name says."""
    assert native.config("model-none").model_config is None
    assert native.config("additional_config-none").additional_config is None


def test_the_plain_question_comes_first_and_must_be_answered(native: NativeAdapter) -> None:
    """The attention picker is asked for a plain decoder layer first; the others it may refuse."""
    first, *others = native.selector_calls()
    assert first.case == "plain"
    assert first.must_answer
    assert not any(call.must_answer for call in others)


def test_the_current_platform_is_lent(native: NativeAdapter) -> None:
    """`active` puts an object where the engine reads it, and takes it back, also after an error."""
    sentinel = object()
    before = "current_platform" in vars(platforms)
    with pytest.raises(RuntimeError), native.active(sentinel):
        assert platforms.current_platform is sentinel  # type: ignore[comparison-overlap]
        raise RuntimeError
    assert ("current_platform" in vars(platforms)) is before


def test_common_hooks_come_from_the_timeline(native: NativeAdapter) -> None:
    """What every run calls is common; what a feature needs is not."""
    common = {call.member for call in native.engine_calls() if call.common}
    assert {"check_and_update_config", "manual_seed_all", "get_attn_backend_cls"} <= common
    assert not common & {"get_punica_wrapper", "get_static_graph_wrapper_cls", "set_device"}


def test_every_component_base_exists(native: NativeAdapter) -> None:
    """Each picker's ABC imports and has the names that the engine uses on it."""
    for picked in native.picked():
        assert picked.base is not None
        assert all(hasattr(picked.base, name) for name in picked.required), picked.picker


def test_built_in_detectors_are_listed(native: NativeAdapter) -> None:
    """The five built-in detectors are found without an import of any of them."""
    assert {"cpu", "cuda", "rocm", "xpu", "tpu"} <= set(native.detectors())
    assert native.detectors()["cpu"] == "platforms.detectors:cpu_platform_plugin"


def test_in_tree_is_what_this_distribution_ships(native: NativeAdapter) -> None:
    """Our own platforms are in the tree, a vendor's is not."""
    from platforms.cpu import CpuPlatform
    from tests.mutants.good import Good

    assert native.in_tree(CpuPlatform)
    assert not native.in_tree(Good)


def test_resolution_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was resolved here, every detector's answer, and an error as text."""
    platforms.reset_current_platform()
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    assert resolve_here()["resolved"] == "platforms.cpu.CpuPlatform"
    platforms.reset_current_platform()
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "abacus")
    said = resolve_here()
    platforms.reset_current_platform()
    assert said["resolved"] == ""
    assert "abacus" in said["error"]
