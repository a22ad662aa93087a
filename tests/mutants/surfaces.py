"""Mutants whose picked classes import and look whole, and do not take what the engine does with them."""

from __future__ import annotations

from typing import Any

from tests.mutants.good import HERE, Good

PARTS = "tests.mutants.surface_parts"


class BackendNameUnknown(Good):
    """Names a backend that the engine cannot look up."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.NameUnknown"


class BackendNameCustom(Good):
    """Names a backend of its own."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        if selected_backend is not None and selected_backend.name != "CUSTOM":
            raise ValueError(f"attention backend {selected_backend.name} does not run on this chip")
        return f"{PARTS}.NameCustom"


class BackendImplByName(Good):
    """Names a backend whose implementation is a name."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.ImplByName"


class BackendImplAbstract(Good):
    """Names a backend whose implementation is half done."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.ImplAbstract"


class BackendMetadataAbstract(Good):
    """Names a backend whose metadata builder is half done."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.MetadataAbstract"


class BackendImplOld(Good):
    """Names a backend whose implementation cannot be made as the layer makes it."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.ImplOldNamed"


class BackendImplWhole(Good):
    """Names a backend whose implementation takes whatever comes."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.ImplWholeNamed"


class BackendMetadataOld(Good):
    """Names a backend whose metadata builder has an older signature."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.MetadataOldNamed"


class BackendSizesAsNumber(Good):
    """Names a backend that gives a number where a list belongs."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.SizesAsNumber"


class BackendSizesListed(Good):
    """Names a backend that lists one size."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.SizesListed"


class BackendShapeNone(Good):
    """Names a backend that gives no shape."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.ShapeNone"


class BackendWindowAsText(Good):
    """Names a backend that answers with text."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.WindowAsText"


class BackendShapeOnInstance(Good):
    """Names a backend with an instance method."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        cls._only_own(selected_backend)
        return f"{PARTS}.ShapeOnInstance"


class CommunicatorGathersOld(Good):
    """Names a communicator with an older all-gather."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return f"{PARTS}.CommunicatorOld"


class CommunicatorMadeOld(Good):
    """Names a communicator that cannot be made as the engine makes it."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return f"{PARTS}.CommunicatorNamed"


class CommunicatorIsAsync(Good):
    """Names a communicator with a coroutine."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return f"{PARTS}.CommunicatorAsync"


class CommunicatorDeclines(Good):
    """Names a communicator that only raises."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return f"{PARTS}.CommunicatorLater"


class CommunicatorTakesMore(Good):
    """Names a communicator that takes more than it must."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return f"{PARTS}.CommunicatorOpen"


class LoraMadeOld(Good):
    """Names a LoRA wrapper that cannot be made as the engine makes it."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Name it."""
        return f"{PARTS}.LoraOld"


class LoraDeclines(Good):
    """Names a LoRA wrapper that leaves two operations for later."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Name it."""
        return f"{PARTS}.LoraLater"


class GraphsMadeOld(Good):
    """Names a graph wrapper that cannot be made as the engine makes it."""

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Name it."""
        return f"{PARTS}.GraphsOld"

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True


class PassesConfiguredOld(Good):
    """Names a pass manager that takes no config."""

    @classmethod
    def get_pass_manager_cls(cls) -> str:
        """Name it."""
        return f"{PARTS}.PassesOld"


class BuilderBuildsOld(Good):
    """Names a planner that takes no limit."""

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: Any) -> str:
        """Name it."""
        return f"{PARTS}.BuilderOld"


class WorkerMadeOld(Good):
    """Names a worker that cannot be made as the engine makes it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Name the worker where the user did not."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = f"{PARTS}.WorkerOld"


class Substitutes(Good):
    """Gives its own backend for whatever the user asked for."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name the one that there is."""
        if attn_selector_config.use_mla:
            raise ValueError("use_mla: latent attention does not run on this chip")
        return f"{HERE}.Backend"


class RefusesOwn(Good):
    """Refuses its own backend where the user asks for it by name."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Refuse every wish."""
        if selected_backend is not None:
            raise ValueError("attention backends cannot be chosen on this chip")
        return f"{HERE}.Backend"
