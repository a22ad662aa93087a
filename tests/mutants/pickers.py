"""Mutants of the pickers: names that do not import, and classes that do not fit."""

from __future__ import annotations

from typing import Any

from tests.mutants.good import HERE, Good


class NoAttention(Good):
    """Gives None for an attention backend."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Forget the return."""
        return None  # type: ignore[return-value]


class AttentionEmpty(Good):
    """Gives an empty name for an attention backend."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Give nothing."""
        return ""


class AttentionDeclines(Good):
    """Declines attention altogether."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Decline."""
        if num_heads is not None:
            raise NotImplementedError
        return f"{HERE}.Backend"


class AttentionUnrelated(Good):
    """Names a backend outside the engine's hierarchy."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        return f"{HERE}.Unrelated"


class AttentionHalf(Good):
    """Names a backend that lacks what the engine asks for."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it."""
        return f"{HERE}.HalfBackend"


class NoneForLatent(Good):
    """Gives None for the kinds of attention that it lacks."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name one, or nothing."""
        cls._only_own(selected_backend)
        return f"{HERE}.Backend" if not attn_selector_config.use_mla else None  # type: ignore[return-value]


class CommunicatorMissing(Good):
    """Names a communicator in a module that does not exist."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return "tests.mutants.communicators.ChipCommunicator"


class CommunicatorUnrelated(Good):
    """Names a communicator outside the engine's hierarchy."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return f"{HERE}.Unrelated"


class LoraMissing(Good):
    """Names a LoRA wrapper from a package that was not shipped."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Name it."""
        return "chip_lora.wrapper.ChipLora"


class LoraIncomplete(Good):
    """Names a LoRA wrapper that lacks operations."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Name it."""
        return f"{HERE}.LoraWithoutLogits"


class LoraWhole(Good):
    """Names a whole LoRA wrapper."""

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Name it."""
        return f"{HERE}.Lora"


class GraphMissing(Good):
    """Names a graph wrapper that its module does not have."""

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Name it."""
        return f"{HERE}.GraphWrapper"

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True


class GraphUnrelated(Good):
    """Names a graph wrapper outside the engine's hierarchy."""

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Name it."""
        return f"{HERE}.Unrelated"

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True


class GraphWhole(Good):
    """Names a whole graph wrapper, and says so."""

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Name it."""
        return f"{HERE}.Graphs"

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True


class GraphWithoutWrapper(Good):
    """Says that it captures graphs, and names no wrapper."""

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True


class WrapperWithoutFlag(Good):
    """Names a wrapper, and says that it captures nothing."""

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Name it."""
        return f"{HERE}.Graphs"


class PassesAreText(Good):
    """Names something that is no class."""

    @classmethod
    def get_pass_manager_cls(cls) -> str:
        """Name it."""
        return f"{HERE}.NOT_A_CLASS"


class PassesUnrelated(Good):
    """Names a pass manager outside the engine's hierarchy."""

    @classmethod
    def get_pass_manager_cls(cls) -> str:
        """Name it."""
        return f"{HERE}.Unrelated"


class BuilderMalformed(Good):
    """Gives a name without a module."""

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: Any) -> str:
        """Name it."""
        return "Builder"


class BuilderUnrelated(Good):
    """Names a planner outside the engine's hierarchy."""

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: Any) -> str:
        """Name it."""
        return f"{HERE}.Unrelated"


class CompileNone(Good):
    """Gives None for a compile backend."""

    @classmethod
    def get_compile_backend(cls) -> str:
        """Forget the return."""
        return None  # type: ignore[return-value]


class CompileMissing(Good):
    """Names a compile backend that does not import."""

    @classmethod
    def get_compile_backend(cls) -> str:
        """Name it."""
        return "tests.mutants.compiler.backend"


class CompileEager(Good):
    """Names a backend that torch has."""

    @classmethod
    def get_compile_backend(cls) -> str:
        """Name it."""
        return "eager"


class VisionUnlisted(Good):
    """Picks a vision backend that it does not list."""

    @classmethod
    def get_vit_attn_backend(cls, head_size: int, dtype: Any, backend: Any = None) -> Any:
        """Pick one."""
        from platform_abc.config import AttentionBackendEnum

        return AttentionBackendEnum.FLASH_ATTN


class VisionListed(Good):
    """Picks a vision backend that it lists."""

    @classmethod
    def get_supported_vit_attn_backends(cls) -> list[Any]:
        """List two."""
        from platform_abc.config import AttentionBackendEnum

        return [AttentionBackendEnum.CUSTOM, AttentionBackendEnum.TORCH_SDPA]


class VisionBeside(Good):
    """Lists no vision backend, and picks one."""

    @classmethod
    def get_supported_vit_attn_backends(cls) -> list[Any]:
        """List none."""
        return []

    @classmethod
    def get_vit_attn_backend(cls, head_size: int, dtype: Any, backend: Any = None) -> Any:
        """Pick one."""
        from platform_abc.config import AttentionBackendEnum

        return AttentionBackendEnum.TORCH_SDPA


class LatentMissing(Good):
    """Names a backend for latent attention that its module does not have."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name one of two."""
        cls._only_own(selected_backend)
        return f"{HERE}.LatentBackend" if attn_selector_config.use_mla else f"{HERE}.Backend"


class LatentElsewhere(Good):
    """Names a backend for latent attention whose library is not on this machine."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name one of three."""
        cls._only_own(selected_backend)
        if attn_selector_config.use_sparse:
            return "chip_library_of_another_machine.Backend"
        return "tests.mutants.needs_library.Backend" if attn_selector_config.use_mla else f"{HERE}.Backend"


class CompileMisspelt(Good):
    """Misspells a backend of torch."""

    @classmethod
    def get_compile_backend(cls) -> str:
        """Name it."""
        return "inductorr"


class PickedModuleExits(Good):
    """Names a communicator whose module ends the process."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name it."""
        return "tests.mutants.ends_process.Communicator"


class PrefillByName(Good):
    """Names the backend for latent prefill where the class itself is asked for."""

    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config: Any) -> Any:
        """Name it, as the other pickers do."""
        return f"{HERE}.Backend"


class PrefillAsserts(Good):
    """Asserts that latent prefill is never asked for."""

    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config: Any) -> Any:
        """Fail."""
        raise AssertionError("no latent attention on this chip")


class PrefillClass(Good):
    """Gives the class for latent prefill itself."""

    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config: Any) -> Any:
        """Return it."""
        from tests.mutants.components import Backend

        return Backend


class PrefillRefused(Good):
    """Has no valid class for latent prefill, and says why."""

    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config: Any) -> Any:
        """Refuse."""
        raise ValueError(f"latent prefill in {mla_selector_config.dtype} does not run on this chip")
