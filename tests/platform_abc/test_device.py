"""The defaults of the Device group."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from platform_abc import DeviceCapability, NotSupported, device_ids
from platform_abc.device import has_device_v2
from tests.platform_abc.contract_platforms import Complete


class Hopper(Complete):
    """A device of capability 9.0; the second one is an 8.9."""

    device_control_env_var = "DUMMY_VISIBLE_DEVICES"

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        return DeviceCapability(8, 9) if device_id else DeviceCapability(9, 0)


class TestCapability:
    """What follows from the capability of a device."""

    @pytest.mark.parametrize("asked", [(8, 0), (9, 0), 90, 89, 75])
    def test_a_device_has_its_own_capability_and_the_earlier_ones(self, asked: tuple[int, int] | int) -> None:
        """Both spellings compare alike."""
        assert Hopper.has_device_capability(asked)

    @pytest.mark.parametrize("asked", [(9, 1), (10, 0), 100, 91])
    def test_a_device_lacks_later_capabilities(self, asked: tuple[int, int] | int) -> None:
        """Both spellings compare alike."""
        assert not Hopper.has_device_capability(asked)

    def test_exactly_means_exactly(self) -> None:
        """An earlier capability is not this one."""
        assert Hopper.is_device_capability((9, 0))
        assert Hopper.is_device_capability(90)
        assert not Hopper.is_device_capability(89)
        assert not Hopper.is_device_capability((8, 9))

    def test_a_family_is_a_generation(self) -> None:
        """The minor number does not count."""
        assert Hopper.is_device_capability_family(90)
        assert Hopper.is_device_capability_family(95)
        assert not Hopper.is_device_capability_family(100)

    def test_the_device_can_be_named_by_position_and_family_also_by_keyword(self) -> None:
        """The second device is of another generation."""
        assert not Hopper.has_device_capability(90, 1)
        assert Hopper.is_device_capability(89, 1)
        assert Hopper.is_device_capability_family(80, device_id=1)

    def test_a_device_without_capability_has_none(self) -> None:
        """Every question is answered with no."""
        assert Complete.get_device_capability() is None
        assert not Complete.has_device_capability(0)
        assert not Complete.is_device_capability((0, 0))
        assert not Complete.is_device_capability_family(0)

    def test_a_capability_with_its_own_comparison_works(self) -> None:
        """Engines have capability types that do not compare with plain tuples."""

        class Foreign(Complete):
            @classmethod
            def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
                return SimpleNamespace(major=9, minor=0, to_int=lambda: 90)  # type: ignore[return-value]

        assert Foreign.has_device_capability((8, 9))
        assert Foreign.is_device_capability((9, 0))
        assert Foreign.is_device_capability_family(90)


@pytest.mark.parametrize(
    ("member", "arguments"),
    [
        ("get_device_uuid", ()),
        ("get_device_total_memory", ()),
        ("get_all_gpu_pci_bus_ids", ()),
        ("set_device", (object(),)),
        ("manual_seed_all", (0,)),
        ("get_current_memory_usage", ()),
        ("stateless_init_device_torch_dist_pg", ("gloo", object(), 0, 1, object())),
        ("num_compute_units", ()),
        ("pack_kv_cache", (object(), object())),
    ],
)
def test_what_only_the_hardware_knows_is_not_supported(member: str, arguments: tuple[object, ...]) -> None:
    """The error names member and platform, and says what would help."""
    with pytest.raises(NotSupported, match=f"Complete does not support {member}; to make it work, "):
        getattr(Complete, member)(*arguments)


class TestIds:
    """The maps between logical, visible and physical ids use the platform's variable and identifiers."""

    def test_without_a_variable_ids_are_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All three namespaces coincide."""
        monkeypatch.delenv("DUMMY_VISIBLE_DEVICES", raising=False)
        assert Hopper.device_id_to_physical_device_id(3) == 3
        assert Hopper.logical_device_id_to_visible_device_id(3) == 3
        assert Hopper.visible_device_id_to_physical_device_id(3) == 3

    def test_a_variable_maps_ids(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second visible device is the one that the variable lists second."""
        monkeypatch.setenv("DUMMY_VISIBLE_DEVICES", "6,2")
        assert Hopper.device_id_to_physical_device_id(1) == 2
        assert Hopper.logical_device_id_to_visible_device_id(1) == 1
        assert Hopper.visible_device_id_to_physical_device_id(0) == 6

    def test_assigned_devices_are_logical_ids_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A visible id means an entry of the variable, whatever was assigned; a hidden device is an error."""
        monkeypatch.setenv("DUMMY_VISIBLE_DEVICES", "6,2")
        device_ids.assign_physical_devices([2, 5])
        try:
            assert Hopper.device_id_to_physical_device_id(0) == 2
            assert Hopper.logical_device_id_to_visible_device_id(0) == 1
            assert Hopper.visible_device_id_to_physical_device_id(0) == 6
            with pytest.raises(ValueError, match="device 5 is hidden by DUMMY_VISIBLE_DEVICES"):
                Hopper.logical_device_id_to_visible_device_id(1)
            with pytest.raises(IndexError, match="logical device 2 does not exist"):
                Hopper.device_id_to_physical_device_id(2)
        finally:
            device_ids.assign_physical_devices(None)

    def test_a_platform_may_have_identifiers_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The maps ask the platform what an entry means."""

        class Named(Hopper):
            @classmethod
            def device_control_id_to_physical_device_id(cls, device_id: str) -> int:
                return {"GPU-a": 0, "GPU-b": 1}[device_id]

        monkeypatch.setenv("DUMMY_VISIBLE_DEVICES", "GPU-b")
        assert Named.visible_device_id_to_physical_device_id(0) == 1

    def test_an_entry_that_is_no_number_is_refused_by_name(self) -> None:
        """The error names the variable and the entry."""
        with pytest.raises(ValueError, match="DUMMY_VISIBLE_DEVICES.*GPU-a|GPU-a.*DUMMY_VISIBLE_DEVICES"):
            Hopper.device_control_id_to_physical_device_id("GPU-a")


class TestGraphPool:
    """The memory pool that device graphs share."""

    def test_it_is_made_once(self) -> None:
        """Every call gives the same handle, from any instance."""

        class Graphs(Complete):
            made = 0

            @classmethod
            def graph_pool_handle(cls) -> tuple[int, int]:
                cls.made += 1
                return (0, cls.made)

        assert Graphs().get_global_graph_pool() == (0, 1)
        assert Graphs().get_global_graph_pool() == (0, 1)

    def test_two_platforms_do_not_share_it(self) -> None:
        """The handle is kept on the class that asked, not on `Platform`."""

        class One(Complete):
            @staticmethod
            def graph_pool_handle() -> str:
                return "one"

        class Two(Complete):
            @staticmethod
            def graph_pool_handle() -> str:
                return "two"

        assert One().get_global_graph_pool() == "one"
        assert Two().get_global_graph_pool() == "two"

    def test_making_it_may_ask_for_it(self) -> None:
        """A vendor's code that recurses ends with Python's error, not in a lock."""

        class Recursive(Complete):
            def graph_pool_handle(self) -> object:  # type: ignore[override]
                return self.get_global_graph_pool()

        ended: list[type] = []

        def ask() -> None:
            with pytest.raises(RecursionError) as caught:
                Recursive().get_global_graph_pool()
            ended.append(caught.type)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(30)
        assert ended == [RecursionError]

    @pytest.mark.torch
    def test_a_platform_that_switches_graphs_off_says_so(self) -> None:
        """With a None in place of the function that torch may have."""

        class Off(Complete):
            graph_pool_handle = None  # type: ignore[assignment]

        with pytest.raises(NotSupported, match="get_global_graph_pool"):
            Off().get_global_graph_pool()

    @pytest.mark.torch
    def test_a_device_without_graphs_says_so(self) -> None:
        """Not a call of None, as reading the name would give."""
        with pytest.raises(NotSupported, match="get_global_graph_pool.*define graph_pool_handle"):
            Complete().get_global_graph_pool()


@pytest.mark.parametrize(
    ("release", "available"),
    [("6.8.0-generic", True), ("5.15.90.1-microsoft-standard-WSL2", False), ("4.4.0-Microsoft", False)],
)
def test_memory_can_be_pinned_but_not_under_wsl(
    monkeypatch: pytest.MonkeyPatch, release: str, available: bool
) -> None:
    """There it depends on the driver, so the default is no."""
    names = os.uname_result(("Linux", "host", release, "#1 SMP", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: names)
    assert Complete.is_pin_memory_available() is available


def test_small_answers() -> None:
    """What a platform gets that says nothing."""
    platform = Complete()
    assert platform.get_infinity_values(object()) == (float("-inf"), float("inf"))  # type: ignore[arg-type]
    assert platform.is_integrated_gpu(0) is False
    assert platform.is_fully_connected([0, 1]) is False
    assert platform.get_cuda_runtime_major() == 0
    assert platform.discover_numa_topology() == []
    assert platform.get_all_device_numa_nodes() is None


@pytest.mark.torch
class TestWithTorch:
    """Defaults that need torch."""

    def test_dtypes_are_best_first(self) -> None:
        """The first is what an engine falls back to."""
        import torch

        assert Complete().supported_dtypes == [torch.bfloat16, torch.float16, torch.float32]
        assert Complete.fp8_dtype() is torch.float8_e4m3fn

    def test_no_gradient_is_recorded_in_inference_mode(self) -> None:
        """The context does what its name says."""
        import torch

        with Complete.inference_mode():
            assert torch.is_inference_mode_enabled()
        assert not torch.is_inference_mode_enabled()

    @pytest.mark.parametrize("copy", ["insert_blocks_to_device", "swap_out_blocks_to_host"])
    def test_blocks_are_copied_where_they_belong(self, copy: str) -> None:
        """Listed blocks arrive in the listed places; the others stay."""
        import torch

        source = torch.arange(12.0).reshape(4, 3)
        target = torch.zeros(5, 3)
        getattr(Complete, copy)(source, target, torch.tensor([3, 0]), torch.tensor([1, 4]))
        assert target[1].tolist() == [9.0, 10.0, 11.0]
        assert target[4].tolist() == [0.0, 1.0, 2.0]
        assert target[[0, 2, 3]].abs().sum() == 0


def test_version_two_needs_every_hook_of_it() -> None:
    """A class that has only some of the new hooks is not of the new version."""

    class Half:
        def is_fully_connected(self, ids: list[int]) -> bool:
            return True

    assert has_device_v2(Complete())
    assert not has_device_v2(Half())  # type: ignore[arg-type]
