"""The defaults of the KernelHooks group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platform_abc.contract_platforms import Complete

CONTEXT = dict.fromkeys(
    (
        "attn_metadata",
        "vllm_config",
        "dp_metadata",
        "num_tokens",
        "num_tokens_across_dp",
        "cudagraph_runtime_mode",
        "batch_descriptor",
        "ubatch_slices",
    )
)


@pytest.mark.parametrize("hook", ["import_ir_kernels", "import_kernels", "register_triton_kernel_overrides"])
def test_kernels_are_the_platforms_business(hook: str) -> None:
    """By default nothing is imported and nothing replaced."""
    assert getattr(Complete, hook)() is None


def test_nothing_is_added_to_the_forward_context() -> None:
    """The engine passes eight keywords and gets an empty mapping."""
    assert Complete.set_additional_forward_context(**CONTEXT) == {}


def test_a_loader_is_left_alone_unless_the_platform_asks_for_more() -> None:
    """Wrapping costs time for every weight."""

    def loader(param: object) -> None:
        """Load nothing."""

    assert Complete.use_sync_weight_loader() is False
    assert Complete.make_synced_weight_loader(loader) is loader


class TestSyncedLoader:
    """A loader wrapped for a device whose copies are lazy."""

    pytestmark = pytest.mark.torch

    @pytest.mark.parametrize(("device", "synced"), [("meta", True), ("cpu", False)])
    def test_each_weight_is_waited_for_on_a_device(
        self, monkeypatch: pytest.MonkeyPatch, device: str, synced: bool
    ) -> None:
        """The wrapped loader passes all on, returns its answer, and then waits for weights off the host."""
        import torch

        class Lazy(Complete):
            @classmethod
            def use_sync_weight_loader(cls) -> bool:
                return True

        events: list[object] = []
        monkeypatch.setattr(torch, "_sync", lambda param: events.append("sync"), raising=False)

        def loader(param: torch.Tensor, weight: int, *, shard: int) -> str:
            events.append((weight, shard))
            return "loaded"

        wrapped = Lazy.make_synced_weight_loader(loader)
        assert wrapped(torch.empty(1, device=device), 3, shard=1) == "loaded"
        assert events == ([(3, 1), "sync"] if synced else [(3, 1)])

    def test_the_weight_may_be_named(self) -> None:
        """Layers call loaders with `param=…` as well."""
        import torch

        class Lazy(Complete):
            @classmethod
            def use_sync_weight_loader(cls) -> bool:
                return True

        def loader(param: torch.Tensor, weight: int) -> int:
            return weight

        wrapped: Any = Lazy.make_synced_weight_loader(loader)
        assert wrapped(param=torch.empty(1), weight=3) == 3
