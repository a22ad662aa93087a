"""A small decoder that runs for real: what the worker of this package executes.

Its shape comes from the model config, its weights from the seed. Every weight is drawn whole and then
cut, so that any number of tensor-parallel ranks computes the same model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs
import torch
from torch.nn.functional import rms_norm, silu

from platform_abc.components.attention import AttentionBackend, AttentionLayerBase, AttentionMetadata
from platform_abc.components.kv_cache import AttentionSpec, KVCacheSpec
from platform_abc.config import AttentionSelectorConfig, EngineConfig, ModelConfig
from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    from platform_abc.components.worker import StepDetails

SelectBackend = Callable[[AttentionSelectorConfig, int], type[AttentionBackend]]
"""`(facts of the layer, query heads of this rank) -> backend`; asks the platform."""

_ROPE_BASE: Final = 10000.0


@attrs.frozen
class Shard:
    """This rank's share, and how the ranks' partial sums are added.

    Args:
        rank: within the tensor-parallel group.
        size: number of ranks.
        all_reduce: adds a tensor over the ranks.
    """

    rank: int
    size: int
    all_reduce: Callable[[torch.Tensor], torch.Tensor]

    def cut(self, whole: torch.Tensor, dim: int) -> torch.Tensor:
        """Return this rank's part of a weight along `dim`, without the memory of the rest."""
        return whole.chunk(self.size, dim)[self.rank].clone()


class PagedAttention(torch.nn.Module):
    """An attention layer with a paged cache, known to the engine by its name.

    Args:
        layer_name: the name in `static_forward_context`.
        config: the engine's configuration.
        model: its model part.
        dtype: what the layer computes in.
        select: asks the platform for the backend.
    """

    def __init__(
        self,
        layer_name: str,
        config: EngineConfig,
        model: ModelConfig,
        dtype: torch.dtype,
        select: SelectBackend,
    ) -> None:
        super().__init__()
        self.layer_name = layer_name
        self.num_heads = model.get_num_attention_heads(config.parallel_config)
        self.num_kv_heads = model.get_num_kv_heads(config.parallel_config)
        self.head_size = model.get_head_size()
        self.dtype = dtype
        self.sliding_window = None if model.disable_sliding_window else model.sliding_window
        cache = config.cache_config
        facts = AttentionSelectorConfig(
            head_size=self.head_size,
            dtype=dtype,
            kv_cache_dtype=cache.cache_dtype,
            block_size=cache.block_size if cache.user_specified_block_size else None,
            use_mla=model.use_mla,
            has_sliding_window=self.sliding_window is not None,
            use_non_causal=config.attention_config.use_non_causal,
        )
        self.backend = select(facts, self.num_heads)
        self.impl = self.backend.get_impl_cls()(
            self.num_heads,
            self.head_size,
            self.head_size**-0.5,
            self.num_kv_heads,
            sliding_window=self.sliding_window,
            kv_cache_dtype=cache.cache_dtype,
        )
        context = config.compilation_config.static_forward_context
        if layer_name in context:
            raise ConfigError(
                f"compilation_config.static_forward_context: expected no layer {layer_name!r} yet, but one "
                "was built with this config before; build each model from a config of its own"
            )
        context[layer_name] = self

    def get_attn_backend(self) -> type[AttentionBackend]:
        """Return the backend that was selected for this layer."""
        return self.backend

    def get_kv_cache_spec(self, config: EngineConfig) -> KVCacheSpec | None:
        """Return what the layer stores.

        Args:
            config: the engine's configuration, whose block size may have changed since the layer was built.
        """
        spec = AttentionSpec(
            block_size=config.cache_config.block_size,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            dtype=self.dtype,
            cache_dtype=config.cache_config.cache_dtype,
            sliding_window=self.sliding_window,
        )
        return self.backend.customize_spec(spec)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: AttentionMetadata,
        kv_cache: torch.Tensor,
    ) -> torch.Tensor:
        """Attend; see `AttentionImpl.forward`.

        Args:
            query: `[T, H, D]`.
            key: `[T, K, D]`.
            value: `[T, K, D]`.
            metadata: of this step.
            kv_cache: this layer's.
        """
        return self.impl.forward(self, query, key, value, kv_cache, metadata)


class ToyLayer(torch.nn.Module):
    """One block: attention and a gated feed-forward network, each behind a norm and a residual."""

    def __init__(
        self,
        index: int,
        config: EngineConfig,
        model: ModelConfig,
        dtype: torch.dtype,
        select: SelectBackend,
        draw: Callable[..., torch.Tensor],
        shard: Shard,
    ) -> None:
        super().__init__()
        self.shard = shard
        self.attn = PagedAttention(f"layers.{index}.attn", config, model, dtype, select)
        hidden, size = model.hidden_size, self.attn.head_size
        heads, kv_heads = model.num_attention_heads, model.get_total_num_kv_heads()
        # With fewer key heads than ranks, neighbouring ranks keep a copy of one.
        copies = max(1, shard.size // kv_heads)
        self.q = _weight(shard.cut(draw(heads, size, hidden), 0).flatten(0, 1))
        self.k = _weight(
            shard.cut(draw(kv_heads, size, hidden).repeat_interleave(copies, 0), 0).flatten(0, 1)
        )
        self.v = _weight(
            shard.cut(draw(kv_heads, size, hidden).repeat_interleave(copies, 0), 0).flatten(0, 1)
        )
        self.o = _weight(shard.cut(draw(hidden, heads, size), 1).flatten(1, 2))
        inner = 2 * hidden
        self.gate = _weight(shard.cut(draw(inner, hidden), 0))
        self.up = _weight(shard.cut(draw(inner, hidden), 0))
        self.down = _weight(shard.cut(draw(hidden, inner), 1))

    def forward(
        self,
        states: torch.Tensor,
        positions: torch.Tensor,
        metadata: Mapping[str, AttentionMetadata],
        kv_caches: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """Return the states after this block.

        Args:
            states: `[T, hidden]`.
            positions: `[T]`, of each token in its request.
            metadata: of attention, by layer name.
            kv_caches: by layer name.
        """
        name = self.attn.layer_name
        normed = _norm(states)
        size = self.attn.head_size
        query = _rotate((normed @ self.q.t()).view(-1, self.attn.num_heads, size), positions)
        key = _rotate((normed @ self.k.t()).view(-1, self.attn.num_kv_heads, size), positions)
        value = (normed @ self.v.t()).view(-1, self.attn.num_kv_heads, size)
        attended = self.attn(query, key, value, metadata[name], kv_caches[name]).flatten(-2)
        states = states + self.shard.all_reduce(attended @ self.o.t())
        normed = _norm(states)
        inner = silu(normed @ self.gate.t()) * (normed @ self.up.t())
        return states + self.shard.all_reduce(inner @ self.down.t())


class ToyForCausalLM(torch.nn.Module):
    """The decoder: embedding, blocks, and scores over the vocabulary.

    Args:
        config: the engine's configuration, with a model part.
        model: that part.
        dtype: dtype of weights and activations.
        device: where the weights go.
        select: asks the platform for attention backends.
        shard: this rank's share.

    Raises:
        ConfigError: the config describes what this model is not.
    """

    def __init__(
        self,
        config: EngineConfig,
        model: ModelConfig,
        dtype: torch.dtype,
        device: torch.device,
        select: SelectBackend,
        shard: Shard,
    ) -> None:
        super().__init__()
        _require_decoder(model, shard.size)
        self.shard = shard
        generator = torch.Generator().manual_seed(model.seed)

        def draw(*shape: int) -> torch.Tensor:
            # Drawn in float32 on the host, so that every dtype, device and rank gets the same weights.
            drawn = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
            return drawn.to(device=device, dtype=dtype)

        self.embedding = _weight(draw(model.vocab_size, model.hidden_size) * math.sqrt(model.hidden_size))
        self.blocks = torch.nn.ModuleList(
            ToyLayer(index, config, model, dtype, select, draw, shard) for index in range(model.num_layers)
        )
        self.head = _weight(draw(model.vocab_size, model.hidden_size))

    def layers(self) -> Mapping[str, AttentionLayerBase]:
        """Return the layers that keep a cache, by name."""
        return {layer.layer_name: layer for layer in self.modules() if isinstance(layer, PagedAttention)}

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        metadata: Mapping[str, AttentionMetadata],
        kv_caches: Mapping[str, torch.Tensor],
        details: StepDetails | None = None,
    ) -> torch.Tensor:
        """Return the scores of the token after each one that is wanted, float32 `[wanted, vocabulary]`.

        Args:
            token_ids: `[T]` integers.
            positions: `[T]` integers, of each token in its request.
            metadata: of attention, by layer name.
            kv_caches: by layer name, changed in place.
            details: whose scores are wanted; None for all.
        """
        states = self.embedding[token_ids]
        for block in self.blocks:
            states = block(states, positions, metadata, kv_caches)
        if details is not None and details.logit_rows is not None:
            states = states[list(details.logit_rows)]
        return (_norm(states) @ self.head.t()).float()

    def run(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        metadata: Mapping[str, AttentionMetadata],
        kv_caches: Mapping[str, torch.Tensor],
        details: StepDetails | None = None,
    ) -> torch.Tensor:
        """Run one step, as a worker asks for it; see `forward`.

        Args:
            token_ids: `[T]` integers.
            positions: `[T]` integers.
            metadata: by layer name.
            kv_caches: by layer name.
            details: whose scores are wanted; None for all.
        """
        logits: torch.Tensor = self(token_ids, positions, metadata, kv_caches, details)
        return logits


def _weight(drawn: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(drawn, requires_grad=False)


def _require_decoder(model: ModelConfig, ranks: int) -> None:
    """Refuse what the toy decoder is not.

    Raises:
        ConfigError: naming the field.
    """
    remedy = "name a worker of yours in parallel_config.worker_cls, or choose another model"
    for field in ("use_mla", "is_hybrid", "is_encoder_decoder", "is_attention_free", "is_multimodal_model"):
        if getattr(model, field):
            raise ConfigError(f"model_config.{field} = True: the toy model is a plain decoder; {remedy}")
    if 2 * model.hidden_size % ranks:
        raise ConfigError(
            f"model_config.hidden_size = {model.hidden_size}: the toy model cannot cut its inner size, twice "
            f"that, into {ranks} tensor-parallel shares"
        )
    if model.get_head_size() % 2:
        raise ConfigError(
            f"model_config.head_size = {model.get_head_size()}: the toy model's position encoding needs an "
            "even number"
        )


def _norm(states: torch.Tensor) -> torch.Tensor:
    return rms_norm(states, states.shape[-1:], eps=1e-6)


def _rotate(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Encode positions by rotating pairs of elements, `[T, heads, D]`."""
    half = states.shape[-1] // 2
    powers = torch.arange(half, device=states.device, dtype=torch.float32) / half
    angles = positions.float().unsqueeze(-1) * _ROPE_BASE**-powers
    cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
    first, second = states.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(states.dtype)
