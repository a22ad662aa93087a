"""A model of two attention layers that a worker can be given, and the same in float64 without any cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.context import CheckContext

if TYPE_CHECKING:
    import torch

LAYERS: Final = ("model.layers.0.attn", "model.layers.1.attn")
_SEED: Final = 20


@attrs.frozen
class Weights:
    """The weights of the model, float32 in host memory.

    Args:
        tokens: `[vocabulary, width]`.
        places: `[longest, width]`.
        projections: for each layer, queries, keys and values in one: `[(H + 2 K) * D, width]`.
        outputs: for each layer `[width, H * D]`.
        head: `[vocabulary, width]`.
        heads: `H`.
        kv_heads: `K`.
        head_size: `D`.
    """

    tokens: torch.Tensor
    places: torch.Tensor
    projections: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]
    head: torch.Tensor
    heads: int
    kv_heads: int
    head_size: int

    def split(self, fused: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Cut a fused projection, `[T, (H + 2 K) * D]`, into heads."""
        import torch

        widths = [self.heads * self.head_size, *[self.kv_heads * self.head_size] * 2]
        query, key, value = (
            one.view(len(fused), -1, self.head_size) for one in torch.split(fused, widths, dim=1)
        )
        return query, key, value


def weights_of(config: Any) -> Weights:
    """Draw the weights of a config's shape."""
    import torch

    model, parallel = config.model_config, config.parallel_config
    heads, kv_heads = model.get_num_attention_heads(parallel), model.get_num_kv_heads(parallel)
    size, width, vocabulary = model.get_head_size(), model.get_hidden_size(), model.get_vocab_size()
    generator = torch.Generator().manual_seed(_SEED)

    def drawn(*shape: int, spread: float = 1.0) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * spread

    return Weights(
        drawn(vocabulary, width),
        drawn(model.max_model_len, width, spread=0.5),
        tuple(drawn((heads + 2 * kv_heads) * size, width, spread=2 * width**-0.5) for _ in LAYERS),
        tuple(drawn(width, heads * size, spread=2 * (heads * size) ** -0.5) for _ in LAYERS),
        drawn(vocabulary, width),
        heads,
        kv_heads,
        size,
    )


def logits_of(weights: Weights, tokens: Sequence[int]) -> torch.Tensor:
    """The logits after the last of some tokens, float64 `[vocabulary]`, computed from all of them at once."""
    import torch

    x = weights.tokens[list(tokens)].double() + weights.places[: len(tokens)].double()
    group = weights.heads // weights.kv_heads
    seen = torch.ones(len(tokens), len(tokens)).tril().bool()
    for projection, output in zip(weights.projections, weights.outputs, strict=True):
        query, key, value = weights.split(x @ projection.double().T)
        key, value = (one.repeat_interleave(group, dim=1) for one in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query, key) * weights.head_size**-0.5
        mixed = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -torch.inf).softmax(-1), value)
        x = x + mixed.flatten(1) @ output.double().T
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True))
    return x[-1] @ weights.head.double().T


def builder(ctx: CheckContext, made: list[Any]) -> Callable[[Any, Any], Any]:
    """The function that a worker is given to build the model; what it builds is put into `made`."""

    def build(config: Any, device: Any) -> Any:
        model = _model_cls()(ctx, config, device)
        made.append(model)
        return model

    return build


def _model_cls() -> Any:
    """The class, made late: a module of torch's needs torch."""
    import torch

    class KitModel(torch.nn.Module):
        """The model as a worker runs it."""

        def __init__(self, ctx: CheckContext, config: Any, device: torch.device) -> None:
            super().__init__()
            self.weights = weights_of(config)
            self.dtype: torch.dtype = config.model_config.dtype
            self.device = device
            held = (
                self.weights.tokens,
                self.weights.places,
                *self.weights.projections,
                *self.weights.outputs,
                self.weights.head,
            )
            self.held = torch.nn.ParameterList(
                [torch.nn.Parameter(one.to(device, self.dtype), requires_grad=False) for one in held]
            )
            self.attention = {name: _Attention(ctx, config, name, self.weights) for name in LAYERS}
            config.compilation_config.static_forward_context.update(self.attention)

        def layers(self) -> Mapping[str, Any]:
            """Return the layers that keep a cache."""
            return self.attention

        def run(
            self,
            token_ids: torch.Tensor,
            positions: torch.Tensor,
            metadata: Mapping[str, Any],
            kv_caches: Mapping[str, torch.Tensor],
            details: Any = None,
        ) -> torch.Tensor:
            """Run the tokens of a step."""
            tokens, places, first, second, out_first, out_second, head = self.held
            x = tokens[token_ids] + places[positions]
            for name, projection, output in zip(
                LAYERS, (first, second), (out_first, out_second), strict=True
            ):
                query, key, value = self.weights.split(x @ projection.T)
                layer = self.attention[name]
                result = torch.empty(query.shape, dtype=query.dtype, device=query.device)
                if layer.backend.accept_output_buffer:
                    mixed = layer.impl.forward(
                        layer, query, key, value, kv_caches[name], metadata[name], result
                    )
                else:
                    mixed = layer.impl.forward(layer, query, key, value, kv_caches[name], metadata[name])
                x = x + mixed.reshape(len(x), -1) @ output.T
                wide = x.float()
                x = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True))).to(self.dtype)
            rows = getattr(details, "logit_rows", None)
            if rows is not None:
                x = x[list(rows)]
            logits: torch.Tensor = x @ head.T
            return logits

    return KitModel


class _Attention:
    """One of its layers."""

    def __init__(self, ctx: CheckContext, config: Any, name: str, weights: Weights) -> None:
        from platform_abc.config import AttentionSelectorConfig

        self.layer_name = name
        self.weights = weights
        self.dtype: Any = config.model_config.dtype
        question = AttentionSelectorConfig(
            head_size=weights.head_size, dtype=self.dtype, kv_cache_dtype="auto", block_size=None
        )
        picked = ctx.platform.get_attn_backend_cls(
            None, attn_selector_config=question, num_heads=weights.heads
        )
        self.backend: Any = ctx.adapter.resolve(picked)
        self.impl: Any = self.backend.get_impl_cls()(
            weights.heads, weights.head_size, weights.head_size**-0.5, num_kv_heads=weights.kv_heads
        )
        self.impl.process_weights_after_loading(self.dtype)

    def get_attn_backend(self) -> Any:
        """Return the backend."""
        return self.backend

    def get_kv_cache_spec(self, config: Any) -> Any:
        """Return what the layer stores."""
        from platform_abc.components.kv_cache import AttentionSpec

        return self.backend.customize_spec(
            AttentionSpec(
                block_size=config.cache_config.block_size,
                num_kv_heads=self.weights.kv_heads,
                head_size=self.weights.head_size,
                dtype=self.dtype,
            )
        )
