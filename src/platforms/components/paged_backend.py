"""What the attention backends of this package share: the cache's layout, their limits, one layer's way through a step."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch

from platform_abc.components.attention import (
    AttentionBackend,
    AttentionImpl,
    AttentionLayer,
    AttentionMetadata,
    MultipleOf,
)
from platform_abc.config_values import AttentionType
from platform_abc.errors import NotSupported
from platforms import attention_choice
from platforms.components import paged_sdpa

if TYPE_CHECKING:
    from platform_abc.config_values import AttentionSelectorConfig
    from platform_abc.types import DeviceCapability


class PagedMetadata(AttentionMetadata, abc.ABC):
    """Metadata of a step that says how many tokens count."""

    @property
    @abc.abstractmethod
    def num_tokens(self) -> int:
        """Tokens of the step, padding left out."""


M = TypeVar("M", bound=PagedMetadata)


class PagedImpl(AttentionImpl[M]):
    """Attention of one layer of a decoder over a paged cache.

    Raises:
        ValueError: the heads cannot be shared evenly, or the window makes no sense.
        NotSupported: what the kernels have no place for: position biases, capped scores, other kinds of
            attention than a decoder's.
    """

    backend_name: ClassVar[str]
    """The name by which a user can ask for the backend, for messages."""

    def check_arguments(self) -> None:
        """Refuse what means something else than a decoder's plain attention.

        Raises:
            ValueError: the window makes no sense.
            NotSupported: the model needs what is not there.
        """
        if self.sliding_window is not None and self.sliding_window < 1:
            raise ValueError(
                f"expected a sliding window of at least 1 token, or None, got {self.sliding_window}"
            )
        if self.alibi_slopes is not None:
            raise self._declined("alibi_slopes", "use a model without position biases in its scores")
        # Zero is how some models spell "no cap".
        if self.logits_soft_cap:
            raise self._declined("logits_soft_cap", "use a model whose scores are not capped")
        if getattr(self.attn_type, "value", self.attn_type) != AttentionType.DECODER.value:
            raise self._declined(f"attn_type {self.attn_type}", "use a decoder-only model")
        if self.kv_cache_dtype not in attention_choice.SDPA_CACHE_DTYPES:
            raise self._declined(
                f"kv_cache_dtype {self.kv_cache_dtype}",
                f"choose from {', '.join(attention_choice.SDPA_CACHE_DTYPES)}",
            )

    def _declined(self, what: str, remedy: str) -> NotSupported:
        return NotSupported(what, self.backend_name, remedy)

    def forward(
        self,
        layer: AttentionLayer,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: M | None,
        output: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store this step's keys and values, then attend over all that is stored.

        Args:
            layer: not read.
            query: `[T, H, D]`.
            key: `[T, K, D]`.
            value: `[T, K, D]`.
            kv_cache: `[2, N, B, K, D]`, changed in place.
            attn_metadata: of this step; None in a profiling run, whose result does not matter.
            output: `[T, H, D]` to be filled; None allocates it.

        Returns:
            `[T, H, D]`; rows beyond the step's tokens are zero.
        """
        result = torch.empty_like(query) if output is None else output
        if attn_metadata is None:
            return result.zero_()
        tokens, stored = attn_metadata.num_tokens, (-1, self.num_kv_heads, self.head_size)
        self.store(key.reshape(stored), value.reshape(stored), kv_cache, attn_metadata)
        shaped = result.view(-1, self.num_heads, self.head_size)
        shaped[tokens:].zero_()
        new = query.reshape(-1, self.num_heads, self.head_size)[:tokens]
        self.attend(new, kv_cache, attn_metadata, shaped[:tokens])
        return result

    @abc.abstractmethod
    def store(self, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, attn_metadata: M) -> None:
        """Store the step's keys and values.

        Args:
            key: `[T, K, D]`, padding included.
            value: `[T, K, D]`.
            kv_cache: `[2, N, B, K, D]`, changed in place.
            attn_metadata: of this step.
        """

    @abc.abstractmethod
    def attend(
        self, query: torch.Tensor, kv_cache: torch.Tensor, attn_metadata: M, out: torch.Tensor
    ) -> None:
        """Attend over all that is stored.

        Args:
            query: `[tokens, H, D]`, without padding.
            kv_cache: `[2, N, B, K, D]`.
            attn_metadata: of this step.
            out: `[tokens, H, D]`, filled.
        """


class PagedBackend(AttentionBackend):
    """A backend over a cache `(2, N, B, K, D)`.

    Prefill, chunks of it and decode in one batch; grouped heads; sliding windows; any block size.
    """

    supported_dtypes: ClassVar[Sequence[str]] = attention_choice.SDPA_DTYPES
    supported_kv_cache_dtypes: ClassVar[Sequence[str]] = attention_choice.SDPA_CACHE_DTYPES

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",  # noqa: ARG004  the contract's, for layouts that pack
    ) -> tuple[int, ...]:
        """Return the shape of one layer's cache, `(2, N, B, K, D)`: keys, then values.

        Args:
            num_blocks: `N`.
            block_size: `B`, in tokens.
            num_kv_heads: `K` of this rank.
            head_size: `D`.
            cache_dtype_str: not used: every dtype is stored element by element.
        """
        return paged_sdpa.cache_shape(num_blocks, block_size, num_kv_heads, head_size)

    @staticmethod
    def get_supported_kernel_block_sizes() -> Sequence[int | MultipleOf]:
        """Return that every block size works."""
        return (MultipleOf(1),)

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Say yes."""
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        """Say yes."""
        return True

    @classmethod
    def validate_configuration(
        cls,
        config: AttentionSelectorConfig,
        capability: DeviceCapability | None = None,
    ) -> list[str]:
        """Return the reasons why this backend cannot serve a layer; empty if it can.

        Args:
            config: what the picker was asked.
            capability: the device's capability, which does not matter here.
        """
        common = super().validate_configuration(config, capability)
        return common or [f"{words} is not supported" for words in attention_choice.refusals(config)]
