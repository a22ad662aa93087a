"""A toy decoder: small, seeded, and built from everything that the platform picks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

import torch

from platform_abc.components.attention import AttentionLayerBase
from platform_abc.config import use_config
from platform_abc.errors import ConfigError
from reference_engine import compilation, graphs, lora, quantization
from reference_engine.attention_layer import Attention
from reference_engine.forward_context import set_forward_context
from reference_engine.ir_ops import rms_norm

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionMetadata
    from platform_abc.components.lora import PunicaWrapperBase
    from platform_abc.components.quantization import QuantizationMethod
    from platform_abc.config import EngineConfig, ModelConfig

EPSILON = 1e-6


class Linear(torch.nn.Module):
    """A linear layer without bias, quantized where the configuration says so.

    Args:
        weight: `[outputs, inputs]`.
        method: the quantization method; None keeps the weight as it is.
    """

    def __init__(self, weight: torch.Tensor, method: QuantizationMethod | None) -> None:
        super().__init__()
        self.method = method
        self.stored = {"weight": weight} if method is None else dict(method.quantize(weight))
        self.adapters: lora.AdapterSlots | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply.

        Args:
            x: `[T, inputs]`.
        """
        if self.method is None:
            y = torch.nn.functional.linear(x, self.stored["weight"])
        else:
            y = self.method.apply(self.stored, x)
        return y if self.adapters is None else self.adapters(y, x)


class Weights:
    """Draws weights from the model's seed and loads each the way the platform wants.

    Args:
        model: the model part of the configuration.
        device: where weights go.
        dtype: their dtype.
    """

    def __init__(self, model: ModelConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.generator = torch.Generator().manual_seed(model.seed)
        self.device = device
        self.dtype = dtype

    def draw(self, outputs: int, inputs: int) -> torch.Tensor:
        """Return `[outputs, inputs]`, normal with a variance that keeps the scale of activations."""
        from platforms import current_platform

        drawn = torch.randn(outputs, inputs, generator=self.generator) / math.sqrt(inputs)
        weight = torch.empty(outputs, inputs, dtype=self.dtype, device=self.device)
        load: Callable[[torch.Tensor, torch.Tensor], None] = _copy_weight
        if current_platform.use_sync_weight_loader():
            load = current_platform.make_synced_weight_loader(load)
        load(weight, drawn)
        return weight


def _copy_weight(weight: torch.Tensor, loaded: torch.Tensor, /) -> None:
    weight.copy_(loaded)


class DecoderLayer(torch.nn.Module):
    """One layer: normed attention and a normed feed-forward part, each added to its input."""

    def __init__(
        self,
        config: EngineConfig,
        model: ModelConfig,
        index: int,
        weights: Weights,
        method: QuantizationMethod | None,
    ) -> None:
        super().__init__()
        width = model.hidden_size
        self.attention = Attention(config, model, f"layers.{index}.attention")
        self.query_width = self.attention.num_heads * self.attention.head_size
        self.kv_width = self.attention.num_kv_heads * self.attention.head_size
        self.qkv = Linear(weights.draw(self.query_width + 2 * self.kv_width, width), method)
        self.out = Linear(weights.draw(width, self.query_width), method)
        self.up = Linear(weights.draw(2 * width, width), method)
        self.down = Linear(weights.draw(width, 2 * width), method)
        self.norms = torch.ones(2, width, dtype=weights.dtype, device=weights.device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layer.

        Args:
            x: `[T, hidden]`.
        """
        qkv = self.qkv(rms_norm(x, self.norms[0], EPSILON))
        query, key, value = qkv.split([self.query_width, self.kv_width, self.kv_width], dim=-1)
        x = x + self.out(self.attention(query.contiguous(), key.contiguous(), value.contiguous()))
        wide: torch.Tensor = self.up(rms_norm(x, self.norms[1], EPSILON))
        added: torch.Tensor = self.down(torch.nn.functional.silu(wide))
        return x + added


class ToyModel(torch.nn.Module):
    """The decoder; see `build_model`."""

    def __init__(self, config: EngineConfig, model: ModelConfig, device: torch.device) -> None:
        super().__init__()
        self.config = config
        self.model = model
        dtype = torch.get_default_dtype()
        weights = Weights(model, device, dtype)
        method = quantization.make_method(config)
        self.embedding = weights.draw(model.vocab_size, model.hidden_size) * math.sqrt(model.hidden_size)
        self.head = weights.draw(model.vocab_size, model.hidden_size)
        self.decoder = torch.nn.ModuleList(
            DecoderLayer(config, model, index, weights, method) for index in range(model.num_layers)
        )
        self.norm = torch.ones(model.hidden_size, dtype=dtype, device=device)
        self.punica: PunicaWrapperBase | None = None
        if config.lora_config is not None:
            self.punica = lora.make_punica_wrapper(config, config.lora_config, device)
            for layer in self.decoder:
                out = cast("DecoderLayer", layer).out
                width = cast("DecoderLayer", layer).query_width
                out.adapters = lora.AdapterSlots(
                    self.punica, config.lora_config, width, model.hidden_size
                ).to(device)
        self.step = graphs.wrap_in_graph(compilation.compile_step(self.forward, config), config)

    def layers(self) -> Mapping[str, AttentionLayerBase]:
        """Return the layers that keep a cache, by name."""
        attention = (cast("DecoderLayer", layer).attention for layer in self.decoder)
        return {layer.layer_name: layer for layer in attention}

    def forward(self, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Run the tokens of a step within a forward context.

        Args:
            token_ids: int64 `[T]`.
            positions: int64 `[T]`.

        Returns:
            Logits, `[T, vocabulary]`.
        """
        x = torch.nn.functional.embedding(token_ids, self.embedding) + self._places(positions)
        for layer in self.decoder:
            x = cast("DecoderLayer", layer).forward(x)
        normed: torch.Tensor = rms_norm(x, self.norm, EPSILON)
        return torch.nn.functional.linear(normed, self.head)

    def _places(self, positions: torch.Tensor) -> torch.Tensor:
        """Return sines and cosines of each token's place, `[T, hidden]`."""
        width = self.model.hidden_size
        rates = torch.exp(torch.arange(width, device=positions.device) * (-math.log(10000.0) / width))
        angles = positions[:, None].float() * rates
        even = torch.arange(width, device=positions.device) % 2 == 0
        return torch.where(even, angles.sin(), angles.cos()).to(self.embedding.dtype)

    def run(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        metadata: Mapping[str, AttentionMetadata],
        kv_caches: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """Run the tokens of one step; see `platform_abc.components.worker.EngineModel`."""
        tokens = token_ids.shape[0]
        if self.punica is not None and self.config.lora_config is not None:
            lora.map_tokens(self.punica, self.config.lora_config, tokens, self.model.vocab_size)
        mode = self.config.compilation_config.cudagraph_mode.mixed_mode()
        with set_forward_context(self.config, metadata, kv_caches, tokens, cudagraph_runtime_mode=mode):
            return self.step(token_ids, positions)


def build_model(config: EngineConfig, device: torch.device, /) -> ToyModel:
    """Build the toy decoder; its attention layers enter `static_forward_context`.

    Args:
        config: the engine's configuration.
        device: where the weights go.

    Raises:
        ConfigError: there is no model part, or it wants what this decoder is not.
        ValueError: the platform refuses the architecture, or no attention backend serves a layer.
    """
    from platforms import current_platform

    model = config.model_config
    if model is None:
        raise ConfigError("model_config = None: expected a model to be loaded")
    if "mamba" in model.layer_kinds:
        raise ConfigError(f"model_config.layer_kinds = {model.layer_kinds}: expected attention layers only")
    current_platform.verify_model_arch(model.architecture)
    if isinstance(model.dtype, str):
        raise ConfigError(
            f"model_config.dtype = {model.dtype!r}: expected a torch.dtype once the engine runs"
        )
    config.compilation_config.static_forward_context.clear()
    before = torch.get_default_dtype()
    torch.set_default_dtype(model.dtype)
    try:
        with use_config(config):
            return ToyModel(config, model, device)
    finally:
        torch.set_default_dtype(before)
