"""The attention layer: picks its backend, says what it stores, and calls the backend's implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from platform_abc.components.kv_cache import AttentionSpec
from platform_abc.config import AttentionSelectorConfig
from reference_model.forward_context import get_forward_context
from reference_model.opaque_ops import attention
from reference_model.selector import get_attn_backend

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionBackend, AttentionImpl
    from platform_abc.components.kv_cache import KVCacheSpec
    from platform_abc.config import CacheDType, EngineConfig
    from reference_model.linear import Build


class Attention(torch.nn.Module):
    """One attention layer over a paged cache.

    Args:
        build: what it is built from; the layer enters the configuration's `static_forward_context`.
        index: of the layer.

    Raises:
        ValueError: no backend serves this layer.
    """

    def __init__(self, build: Build, index: int) -> None:
        super().__init__()
        from platforms import current_platform

        config, model = build.config, build.model
        self.layer_name = f"layers.{index}.attention"
        self.num_heads = model.get_num_attention_heads(config.parallel_config)
        self.num_kv_heads = model.get_num_kv_heads(config.parallel_config)
        self.head_size = model.get_head_size()
        self.sliding_window = build.shape.windows[index]
        self.dtype = build.weights.dtype
        cache = config.cache_config
        # By name or by number.
        self.skipped = not {self.layer_name, str(index)}.isdisjoint(cache.kv_cache_dtype_skip_layers)
        self.kv_cache_dtype: CacheDType = "auto" if self.skipped else cache.cache_dtype
        facts = AttentionSelectorConfig(
            head_size=self.head_size,
            dtype=self.dtype,
            kv_cache_dtype=self.kv_cache_dtype,
            # The size is chosen after all layers are built, so only a user's wish is known here.
            block_size=cache.block_size if cache.user_specified_block_size else None,
            has_sliding_window=self.sliding_window is not None,
        )
        self.backend = get_attn_backend(facts, self.num_heads)
        self.impl: AttentionImpl[Any] = self.backend.get_impl_cls()(
            self.num_heads,
            self.head_size,
            self.head_size**-0.5,
            num_kv_heads=self.num_kv_heads,
            sliding_window=self.sliding_window,
            kv_cache_dtype=self.kv_cache_dtype,
        )
        self.use_opaque_op = current_platform.opaque_attention_op()
        config.compilation_config.static_forward_context[self.layer_name] = self

    def prepare(self) -> None:
        """Let the implementation derive what it needs, once the weights around it are loaded."""
        self.impl.process_weights_after_loading(self.dtype)

    def get_attn_backend(self) -> type[AttentionBackend]:
        """Return the backend that was selected for this layer."""
        return self.backend

    def get_kv_cache_spec(self, config: EngineConfig) -> KVCacheSpec | None:
        """Return what the layer stores.

        Args:
            config: the configuration, once the block size is chosen.
        """
        cache = config.cache_config
        return self.backend.customize_spec(
            AttentionSpec(
                block_size=cache.block_size,
                num_kv_heads=self.num_kv_heads,
                head_size=self.head_size,
                dtype=self.dtype,
                cache_dtype=self.kv_cache_dtype,
                sliding_window=self.sliding_window,
                page_size_padded=cache.skip_page_size_padded if self.skipped else None,
            )
        )

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Attend.

        Args:
            query: `[T, H, D]`.
            key: `[T, K, D]`.
            value: `[T, K, D]`.

        Returns:
            `[T, H * D]`.
        """
        output = torch.empty_like(query)
        if self.use_opaque_op:
            attention(query, key, value, output, self.layer_name)
        else:
            attend(self.layer_name, query, key, value, output)
        return output.view(-1, self.num_heads * self.head_size)


def attend(
    layer_name: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, output: torch.Tensor
) -> None:
    """Call the implementation of a layer of the current step.

    Args:
        layer_name: the layer.
        query: `[T, H, D]`.
        key: `[T, K, D]`.
        value: `[T, K, D]`.
        output: `[T, H, D]`, filled.
    """
    context = get_forward_context()
    layer: Attention = context.config.compilation_config.static_forward_context[layer_name]
    result = layer.impl.forward(
        layer,
        query,
        key,
        value,
        context.kv_caches[layer_name],
        context.attn_metadata[layer_name],
        output if layer.backend.accept_output_buffer else None,
    )
    if result is not output:
        output.copy_(result.view_as(output))
