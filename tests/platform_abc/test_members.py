"""The members as data: complete, in their groups, and true of the classes that they describe."""

from __future__ import annotations

import pytest

from platform_abc import MEMBERS, NotSupported, Platform
from platform_abc._groups import GROUPS
from platform_abc.members import MemberSpec
from tests.platform_abc.contract_platforms import Complete

SPECS = [pytest.param(spec, id=name) for name, spec in MEMBERS.items()]
DECLINING = [pytest.param(spec, id=name) for name, spec in MEMBERS.items() if spec.default == "not-supported"]


def test_the_mandatory_members_are_six() -> None:
    """Three attributes and three methods; everything else has a default."""
    assert {name for name, spec in MEMBERS.items() if spec.mandatory} == {
        "_enum",
        "device_name",
        "device_type",
        "check_and_update_config",
        "get_attn_backend_cls",
        "get_device_name",
    }


def test_what_a_platform_gets_that_defines_nothing() -> None:
    """Nothing for a mandatory member; else a value, an answer, or NotSupported."""
    assert all((spec.default == "none") is spec.mandatory for spec in MEMBERS.values())
    assert MEMBERS["dispatch_key"].default == "value"
    assert MEMBERS["supported_dtypes"].default == "answer"
    assert MEMBERS["get_vit_attn_backend"].default == "answer"
    assert MEMBERS["get_punica_wrapper"].default == "not-supported"


def test_names_that_came_later_are_in_a_later_version() -> None:
    """The frozen Protocols hold what every platform of the first version has."""
    assert {name for name, spec in MEMBERS.items() if spec.version == 2} == {
        "get_kv_cache_config_builder_cls",
        "is_fully_connected",
        "get_cuda_runtime_major",
        "insert_blocks_to_device",
        "swap_out_blocks_to_host",
        "discover_numa_topology",
        "pack_kv_cache",
        "get_all_device_numa_nodes",
        "is_on_gfx9",
    }


@pytest.mark.parametrize("spec", SPECS)
def test_each_member_is_on_the_abc_of_its_group(spec: MemberSpec) -> None:
    """The group's ABC itself, or its base for the fallback and the mandatory attributes, defines the name."""
    group = next(group for group in GROUPS if group.name == spec.group)
    assert any(spec.name in vars(base) for base in group.abc.__mro__[:-1])
    others = [other.abc for other in GROUPS if other is not group]
    assert not any(spec.name in vars(base) for abc in others for base in abc.__mro__[:-1])


@pytest.mark.parametrize("spec", SPECS)
def test_each_member_has_a_summary(spec: MemberSpec) -> None:
    """One sentence that says what it is."""
    assert spec.summary.endswith(".")


def test_every_public_hook_of_the_abcs_is_declared_in_a_protocol() -> None:
    """No default without a declaration, but for `has_runtime`, which is a vendor-side help, and torch's names."""
    for group in GROUPS:
        public = {name for name in vars(group.abc) if not name.startswith("_")}
        assert public <= MEMBERS.keys()


@pytest.mark.parametrize("spec", DECLINING)
def test_what_is_listed_as_not_supported_raises_it_in_every_call(spec: MemberSpec) -> None:
    """The list is read off the compiled defaults; this is the proof by calling them."""
    for call in spec.calls:
        with pytest.raises(NotSupported) as caught:
            getattr(Complete(), spec.name)(*call.args, **dict.fromkeys(call.keywords))
        assert caught.value.member == spec.name
        assert caught.value.platform == "Complete"


def test_kinds_are_those_of_the_abc() -> None:
    """One of each kind."""
    assert {MEMBERS[name].kind for name in ("device_type", "dispatch_key", "_global_graph_pool")} == {
        "attribute"
    }
    assert MEMBERS["supported_dtypes"].kind == "property"
    assert MEMBERS["is_cuda"].kind == "method"
    assert MEMBERS["get_device_name"].kind == "classmethod"


def test_calls_are_those_of_the_engine() -> None:
    """By position where the Protocol says so, by keyword where it does, shortest and longest."""
    assert [call.of("f") for call in MEMBERS["get_attn_backend_cls"].calls] == [
        "f(selected_backend, attn_selector_config=…, num_heads=…)"
    ]
    assert [call.of("f") for call in MEMBERS["is_device_capability_family"].calls] == [
        "f(capability)",
        "f(capability, device_id)",
        "f(capability, device_id=…)",
    ]
    assert MEMBERS["device_type"].calls == ()


def test_the_table_cannot_be_changed() -> None:
    """It describes the classes; writing to it would not change them."""
    with pytest.raises(TypeError):
        MEMBERS["new"] = MEMBERS["is_cuda"]  # type: ignore[index]


def test_all_groups_compose_the_platform() -> None:
    """Every group's ABC is a base of `Platform`."""
    assert all(issubclass(Platform, group.abc) for group in GROUPS)
