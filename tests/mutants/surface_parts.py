"""Component classes with one fault each that no import and no look at their names shows."""

from __future__ import annotations

import functools
from typing import Any

from platform_abc.components.attention import AttentionImpl, AttentionMetadataBuilder
from platform_abc.components.lora import PunicaWrapperBase
from platforms.components.attention import SdpaImpl, SdpaMetadataBuilder
from tests.mutants.components import Backend, Builder, Communicator, Graphs, Lora, Passes, Worker


class NameUnknown(Backend):
    """A backend with a name of its own, which the engine cannot look up."""

    @staticmethod
    def get_name() -> str:
        """Return it."""
        return "CHIP_ATTN"


class NameCustom(Backend):
    """A backend with the name that stands for a vendor's own."""

    @staticmethod
    def get_name() -> str:
        """Return it."""
        return "CUSTOM"


class ImplByName(Backend):
    """A backend that gives the name of its implementation."""

    @staticmethod
    def get_impl_cls() -> Any:
        """Return the name."""
        return "tests.mutants.surface_parts.ImplWhole"


class HalfImpl(AttentionImpl[Any]):
    """An implementation without a forward."""


class ImplAbstract(Backend):
    """A backend whose implementation leaves the forward open."""

    @staticmethod
    def get_impl_cls() -> Any:
        """Return the half one."""
        return HalfImpl


class HalfMetadata(AttentionMetadataBuilder[Any]):
    """A metadata builder that builds nothing."""


class MetadataAbstract(Backend):
    """A backend whose metadata builder leaves `build` open."""

    @staticmethod
    def get_builder_cls() -> Any:
        """Return the half one."""
        return HalfMetadata


class ImplOld(SdpaImpl):
    """An implementation whose constructor has no sliding window yet."""

    def __init__(self, num_heads: int, head_size: int, scale: float, num_kv_heads: int | None = None) -> None:
        super().__init__(num_heads, head_size, scale, num_kv_heads=num_kv_heads)


class ImplOldNamed(Backend):
    """A backend that names the old implementation."""

    @staticmethod
    def get_impl_cls() -> Any:
        """Return it."""
        return ImplOld


class ImplWhole(SdpaImpl):
    """An implementation that passes on whatever it gets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class ImplWholeNamed(Backend):
    """A backend that names the open implementation, as a class method."""

    @classmethod
    def get_impl_cls(cls) -> Any:
        """Return it."""
        return ImplWhole


class MetadataOld(SdpaMetadataBuilder):
    """A metadata builder of an older engine."""

    def build(self, common_attn_metadata: Any) -> Any:  # type: ignore[override]
        """Build it."""
        return super().build(0, common_attn_metadata)


class MetadataOldNamed(Backend):
    """A backend that names the old metadata builder."""

    @staticmethod
    def get_builder_cls() -> Any:
        """Return it."""
        return MetadataOld


class SizesAsNumber(Backend):
    """A backend that gives a number where a list belongs."""

    @staticmethod
    def get_supported_kernel_block_sizes() -> Any:
        """Return it."""
        return 16


class SizesListed(Backend):
    """A backend that gives a list of one."""

    @staticmethod
    def get_supported_kernel_block_sizes() -> Any:
        """Return it."""
        return [16]


class ShapeNone(Backend):
    """A backend that forgets to return the shape."""

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> Any:
        """Compute it."""


class WindowAsText(Backend):
    """A backend that answers a yes/no question with text."""

    @classmethod
    def supports_sliding_window(cls) -> Any:
        """Return text."""
        return "no"


class ShapeOnInstance(Backend):
    """A backend with an instance method, although backends are never instantiated."""

    def get_kv_cache_shape(  # type: ignore[override]
        self,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",
    ) -> tuple[int, ...]:
        """Return it."""
        return (2, num_blocks, block_size, num_kv_heads, head_size)


class CommunicatorOld(Communicator):
    """A communicator whose all-gather takes no dimension."""

    def all_gather(self, input_: Any) -> Any:  # type: ignore[override]
        """Ask the base."""
        return super().all_gather(input_)


class CommunicatorNamed(Communicator):
    """A communicator whose constructor takes no name of the group."""

    def __init__(self, cpu_group: Any, device: Any = None, device_group: Any = None) -> None:
        super().__init__(cpu_group, device, device_group)


class CommunicatorAsync(Communicator):
    """A communicator with a coroutine."""

    async def all_reduce(self, input_: Any) -> Any:  # type: ignore[override]
        """Ask the base."""
        return super().all_reduce(input_)


class CommunicatorLater(Communicator):
    """A communicator that declines what every rank does."""

    def all_reduce(self, input_: Any) -> Any:
        """Decline."""
        raise NotImplementedError


class CommunicatorOpen(Communicator):
    """A communicator that takes more than it must, and binds some of it beforehand."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def _reduced(self, kind: str, input_: Any) -> Any:
        return super().all_reduce(input_)

    all_reduce = functools.partialmethod(_reduced, "sum")

    def all_gather(self, input_: Any, dim: int = -1, *, group: str = "") -> Any:
        """Ask the base."""
        return super().all_gather(input_, dim)


class LoraOld(Lora):
    """A LoRA wrapper whose constructor knows no number of adapters."""

    def __init__(self, max_num_batched_tokens: int, max_batches: int, device: Any) -> None:
        super().__init__(max_num_batched_tokens, max_batches, device, max_loras=1)


class LoraLater(PunicaWrapperBase):
    """A LoRA wrapper that leaves two operations for later."""

    def add_shrink(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing."""

    def add_expand(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing."""

    def add_lora_linear(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing."""

    def add_lora_embedding(self, *args: Any, **kwargs: Any) -> Any:
        """Decline."""
        raise NotImplementedError

    def add_lora_logits(self, *args: Any, **kwargs: Any) -> Any:
        """Decline."""
        raise NotImplementedError


class GraphsOld(Graphs):
    """A graph wrapper without a parameter for the pool."""

    def __init__(self, runnable: Any, vllm_config: Any, runtime_mode: Any) -> None:
        super().__init__(runnable, vllm_config, runtime_mode)


class PassesOld(Passes):
    """A pass manager whose `configure` takes nothing."""

    def configure(self) -> None:  # type: ignore[override]
        """Configure nothing."""


class BuilderOld(Builder):
    """A planner of the KV cache that knows no limit of memory."""

    def build(self, specs: Any) -> Any:  # type: ignore[override]
        """Ask the base."""
        return super().build(specs, 0)


class WorkerOld(Worker):
    """A worker whose constructor has no `is_driver_worker`."""

    def __init__(self, vllm_config: Any, local_rank: int, rank: int, distributed_init_method: str) -> None:
        super().__init__(vllm_config, local_rank, rank, distributed_init_method)


class SleepingWorker(Worker):
    """A worker that brings sleep mode itself."""

    def sleep(self, level: int = 1) -> None:
        """Give memory back."""

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Take it again."""
