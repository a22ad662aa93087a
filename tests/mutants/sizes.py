"""Mutants of the hooks that choose the block size of the cache, and their right twins."""

from __future__ import annotations

from typing import Any

from tests.mutants.good import HERE, Good


class _Wide(Good):
    """A platform whose backend takes blocks of 64 tokens only."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name it, for what the base class of this zoo answers too."""
        super().get_attn_backend_cls(selected_backend, attn_selector_config, num_heads)
        return f"{HERE}.Wide"


class SetEarly(Good):
    """Sets a size in the config hook, which the base's choice for the backend replaces later."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        super().check_and_update_config(vllm_config)
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 512


class SetTwice(Good):
    """Sets one size in the config hook and another in the worker's hook."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set 128."""
        super().check_and_update_config(vllm_config)
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 128

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Set 64."""
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 64


class NotForBackend(_Wide):
    """Sets a size that the platform's own backend does not take."""

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Set it."""
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 32


class ForBackend(_Wide):
    """Leaves the size to the base, which asks the backend."""


class FailsWithLayers(Good):
    """Looks into the layers of the model by an attribute that layers do not have."""

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Look into them."""
        super().update_block_size_for_backend(vllm_config)
        for layer in vllm_config.compilation_config.static_forward_context.values():
            if layer.chip_block_size > vllm_config.cache_config.block_size:
                vllm_config.cache_config.block_size = layer.chip_block_size


class StateTooLarge(Good):
    """Sets a size for a hybrid model without a look at its states."""

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Set it."""
        if not vllm_config.cache_config.user_specified_block_size:
            vllm_config.cache_config.block_size = 32


class StalePadding(Good):
    """Doubles the size after the base has aligned the pages of a hybrid model."""

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Double it."""
        super().update_block_size_for_backend(vllm_config)
        cache = vllm_config.cache_config
        if cache.mamba_page_size_padded is not None and cache.block_size < 64:
            cache.block_size *= 2


class UndoneLater(Good):
    """Puts the size of a hybrid model back to the default when the config hooks run again."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it back."""
        super().check_and_update_config(vllm_config)
        cache = vllm_config.cache_config
        if cache.mamba_page_size_padded is not None:
            cache.block_size = 16


class SetLarger(Good):
    """Sets a size in the config hook, and leaves it or raises it in the worker's."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set it."""
        super().check_and_update_config(vllm_config)
        cache = vllm_config.cache_config
        if not cache.user_specified_block_size:
            cache.block_size = max(cache.block_size, 64)

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """Let the base choose, and keep the larger."""
        cache = vllm_config.cache_config
        wanted, asked = cache.block_size, cache.user_specified_block_size
        cache.user_specified_block_size = True
        try:
            super().update_block_size_for_backend(vllm_config)
        finally:
            cache.user_specified_block_size = asked
        cache.block_size = max(cache.block_size, wanted)
