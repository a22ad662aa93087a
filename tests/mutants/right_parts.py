"""The components of right platforms that differ from ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import torch

from platform_abc.components.attention import (
    AttentionImpl,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
    MultipleOf,
)
from platform_abc.components.worker import WorkerBase
from platforms.components.worker import DeviceWorker
from tests.mutants.attention_parts import Batch, Plain, PlainBackend, PlainBuilder

if TYPE_CHECKING:
    from platform_abc.components.kv_cache import KVCacheSpec
    from platform_abc.config import EngineConfig


class SizedBuilder(PlainBuilder):
    """Keeps block tables in memory that is as large as the config allows, and no larger."""

    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        layer_names: Sequence[str],
        config: EngineConfig,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, config, device)
        model = config.model_config
        assert model is not None
        blocks = -(-model.max_model_len // kv_cache_spec.block_size)
        shape = (config.scheduler_config.max_num_seqs, blocks)
        self.held = torch.zeros(shape, dtype=torch.int32, device=device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> Batch:
        """Build the metadata of a step on the memory of the builder."""
        table = common_attn_metadata.block_table
        kept = self.held[: table.shape[0], : table.shape[1]].copy_(table)
        return super().build(
            common_prefix_len, attrs.evolve(common_attn_metadata, block_table=kept), fast_build
        )


class Prepared(Plain):
    """Makes its factor once the weights are loaded, and takes two head sizes in one dtype."""

    prepared: float | None = None

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Choose the kernel."""
        assert act_dtype is torch.float16
        assert self.head_size in (64, 128)
        self.prepared = self.scale

    def factor(self) -> float:
        """Return the factor of the scores."""
        assert self.prepared is not None, "process_weights_after_loading was not called"
        return self.prepared


class FewSizesBackend(PlainBackend):
    """Two head sizes, one dtype, one block size."""

    supported_dtypes: ClassVar[Sequence[str]] = ("float16",)
    impl: ClassVar[type[AttentionImpl[Any]]] = Prepared

    @staticmethod
    def get_builder_cls() -> type[AttentionMetadataBuilder[Any]]:
        """Return the builder."""
        return SizedBuilder

    @staticmethod
    def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
        """Return the one size."""
        return (256,)

    @classmethod
    def supports_block_size(cls, block_size: int | None) -> bool:
        """Say whether it is the one size: blocks are not cut here."""
        return block_size in (None, 256)

    @classmethod
    def get_supported_head_sizes(cls) -> Sequence[int]:
        """Return the two sizes."""
        return (64, 128)


class KeepsBounds(Plain):
    """Keeps the largest and the smallest key of each block behind its tokens, `[N, B + 1, K, 2 * D]`."""

    def store(self, key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, batch: Batch) -> None:
        """Store keys and values, and widen the bounds of their blocks."""
        size = self.head_size
        for row, slot in enumerate(batch.whole.slot_mapping.tolist()):
            if slot < 0:
                continue
            block, offset = divmod(slot, batch.block_size)
            cache[block, offset, :, :size], cache[block, offset, :, size:] = key[row], value[row]
            most, least = cache[block, -1, :, :size], cache[block, -1, :, size:]
            # The first token of a block begins its bounds anew.
            most.copy_(torch.maximum(most, key[row]) if offset else key[row])
            least.copy_(torch.minimum(least, key[row]) if offset else key[row])

    def gather(
        self, cache: torch.Tensor, batch: Batch, request: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the keys and values of a request, `[length, K, D]` each."""
        return super().gather(cache[:, :-1], batch, request, length)


class BoundsBackend(PlainBackend):
    """Bounds of keys, as kernels keep them that choose blocks by them."""

    impl: ClassVar[type[AttentionImpl[Any]]] = KeepsBounds

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """Return `[N, B + 1, K, 2 * D]`."""
        return (num_blocks, block_size + 1, num_kv_heads, 2 * head_size)

    @classmethod
    def customize_spec(cls, spec: KVCacheSpec) -> KVCacheSpec:
        """Return the spec with room for the bounds."""
        tokens = spec.block_size
        return attrs.evolve(spec, page_size_padded=spec.unpadded_page_size_bytes // tokens * (tokens + 1))


class WholeBlocks(DeviceWorker):
    """Gives whole blocks."""

    shutdown = WorkerBase.shutdown

    def determine_available_memory(self) -> int:
        """Return the bytes of as many whole blocks as fit."""
        block = sum(spec.page_size_bytes for spec in self.get_kv_cache_spec().values())
        return super().determine_available_memory() // block * block
