"""The Llama family: a decoder of everything that the platform picks, whole or one rank's share of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import torch
from torch.nn.functional import silu

from platform_abc.components.graph import BatchDescriptor, graph_step
from platform_abc.config import use_config
from platform_abc.errors import ConfigError
from reference_engine import compilation, graphs, quantization
from reference_engine.adapter_folder import Adapter, read_adapter
from reference_engine.attention_layer import Attention
from reference_engine.forward_context import get_forward_context, set_forward_context
from reference_engine.ir_ops import fused_add_rms_norm, rms_norm
from reference_engine.linear import Embedding, Head, Linear, Part, Vocabulary, share
from reference_engine.lora import Adapters, AdapterSlots, Target, make_punica_wrapper
from reference_engine.mamba_layer import MambaLayer
from reference_engine.model_config import LlamaShape, shape_of
from reference_engine.parallel import GroupCoordinator
from reference_engine.rotary import Rotary
from reference_engine.weights import Cut, Weights, weight_source

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionLayerBase, AttentionMetadata
    from platform_abc.components.lora import PunicaWrapperBase
    from platform_abc.components.quantization import QuantizationMethod
    from platform_abc.components.worker import StepDetails
    from platform_abc.config import EngineConfig, LoRAConfig, ModelConfig

Factors = tuple[torch.Tensor, torch.Tensor]


@attrs.frozen(eq=False)
class Build:
    """What every layer is built from.

    Args:
        config: the engine's configuration.
        model: its model part.
        shape: of the model.
        weights: where weights come from.
        method: the quantization method; None for none.
        group: the ranks, which divide heads and inner sizes.
    """

    config: EngineConfig
    model: ModelConfig
    shape: LlamaShape
    weights: Weights
    method: QuantizationMethod | None
    group: GroupCoordinator

    def linear(self, parts: Sequence[Part], *, bias: bool) -> Linear:
        """Return a layer that computes several products of one input."""
        return Linear(self.weights, parts, bias=bias, method=self.method, group=self.group)


class Mixer(torch.nn.Module):
    """Attention between its projections.

    Args:
        build: what it is built from.
        index: of the layer.
    """

    def __init__(self, build: Build, index: int) -> None:
        super().__init__()
        shape, group = build.shape, build.group
        name, size, width = f"model.layers.{index}.self_attn", shape.head_size, shape.hidden_size
        queries, stored = shape.heads * size, shape.kv_heads * size
        self.attention = Attention(
            build.config, build.model, f"layers.{index}.attention", build.weights.dtype, shape.windows[index]
        )
        self.heads, self.kv_heads, self.size = self.attention.num_heads, self.attention.num_kv_heads, size
        kv_cut = _kv_share(shape, group)
        self.qkv = build.linear(
            [
                Part(name=f"{name}.q_proj", outputs=queries, inputs=width, cut=share(0, queries, group)),
                Part(name=f"{name}.k_proj", outputs=stored, inputs=width, cut=kv_cut),
                Part(name=f"{name}.v_proj", outputs=stored, inputs=width, cut=kv_cut),
            ],
            bias=shape.attention_bias,
        )
        self.out = build.linear(
            [Part(name=f"{name}.o_proj", outputs=width, inputs=queries, cut=share(1, queries, group))],
            bias=shape.attention_bias,
        )

    def forward(self, x: torch.Tensor, rotary: Rotary, factors: Factors) -> torch.Tensor:
        """Attend.

        Args:
            x: `[T, hidden]`.
            rotary: turns queries and keys.
            factors: its factors for this step.
        """
        heads = self.qkv(x).view(-1, self.heads + 2 * self.kv_heads, self.size)
        turned = rotary(heads[:, : self.heads + self.kv_heads], factors)
        query, key = turned.split((self.heads, self.kv_heads), dim=1)
        value = heads[:, self.heads + self.kv_heads :]
        attended = self.attention(query.contiguous(), key.contiguous(), value.contiguous())
        answer: torch.Tensor = self.out(attended)
        return answer


def _kv_share(shape: LlamaShape, group: GroupCoordinator) -> Cut | None:
    """Return this rank's key and value heads; neighbours keep a copy of one where there are fewer than ranks."""
    own = max(1, shape.kv_heads // group.world_size)
    first = group.rank * shape.kv_heads // group.world_size
    return None if group.world_size == 1 else Cut(0, first * shape.head_size, own * shape.head_size)


class DecoderLayer(torch.nn.Module):
    """One layer: attention or a recurrence, and a gated feed-forward part, each normed and added to its input.

    Args:
        build: what it is built from.
        index: of the layer.
    """

    def __init__(self, build: Build, index: int) -> None:
        super().__init__()
        shape, group, weights = build.shape, build.group, build.weights
        name, width, inner = f"model.layers.{index}", shape.hidden_size, shape.intermediate_size
        self.epsilon = shape.epsilon
        self.mixer: Mixer | MambaLayer
        if shape.kinds[index] == "mamba":
            self.mixer = MambaLayer(
                build.config, shape, weights, f"{name}.mamba", f"layers.{index}.mamba", build.method, group
            )
        else:
            self.mixer = Mixer(build, index)
        rows = share(0, inner, group)
        self.gate_up = build.linear(
            [
                Part(name=f"{name}.mlp.gate_proj", outputs=inner, inputs=width, cut=rows),
                Part(name=f"{name}.mlp.up_proj", outputs=inner, inputs=width, cut=rows),
            ],
            bias=shape.mlp_bias,
        )
        self.down = build.linear(
            [Part(name=f"{name}.mlp.down_proj", outputs=width, inputs=inner, cut=share(1, inner, group))],
            bias=shape.mlp_bias,
        )
        self.norm = weights.take(f"{name}.input_layernorm.weight", (width,))
        self.second_norm = weights.take(f"{name}.post_attention_layernorm.weight", (width,))

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None, rotary: Rotary, factors: Factors
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the layer.

        Args:
            x: `[T, hidden]`, what the layer before gave.
            residual: `[T, hidden]`, what is to be added to it; None for the first layer.
            rotary: turns queries and keys.
            factors: its factors for this step.

        Returns:
            What this layer gives, and what is to be added to it.
        """
        normed: torch.Tensor
        added: torch.Tensor
        if residual is None:
            normed, added = rms_norm(x, self.norm, self.epsilon), x
        else:
            normed, added = fused_add_rms_norm(x, residual, self.norm, self.epsilon)
        mixer = self.mixer
        mixed = mixer(normed, rotary, factors) if isinstance(mixer, Mixer) else mixer(normed)
        normed, added = fused_add_rms_norm(mixed, added, self.second_norm, self.epsilon)
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return self.down(silu(gate) * up), added


class LlamaForCausalLM(torch.nn.Module):
    """The model, as a worker runs it; see `build_model`.

    Args:
        config: the engine's configuration.
        model: its model part, with a dtype.
        dtype: of weights and activations.
        device: where the weights go.
        group: the ranks that share the model.
    """

    def __init__(
        self,
        config: EngineConfig,
        model: ModelConfig,
        dtype: torch.dtype,
        device: torch.device,
        group: GroupCoordinator,
    ) -> None:
        super().__init__()
        self.config = config
        self.shape = shape = shape_of(model, group.world_size)
        weights = Weights(weight_source(config, model.model, model.seed), device, dtype)
        vocabulary = Vocabulary(shape.vocab_size, group)
        self.embedding = Embedding(weights, "model.embed_tokens.weight", vocabulary, shape.hidden_size)
        build = Build(config, model, shape, weights, quantization.make_method(config, dtype), group)
        self.decoder = [DecoderLayer(build, index) for index in range(model.num_layers)]
        self.norm = weights.take("model.norm.weight", (shape.hidden_size,))
        head = (
            self.embedding.weight
            if shape.tied
            else vocabulary.load(weights, "lm_head.weight", shape.hidden_size)
        )
        weights.source.check_all_read(("lm_head.weight",) if shape.tied else ())
        self.head = Head(head, vocabulary)
        self.rotary = Rotary(shape.head_size, shape.rope, model.max_model_len, dtype, device)
        self.adapters: Adapters | None = None
        if config.lora_config is not None:
            self.adapters = self._make_adapters(config, config.lora_config, dtype, device)
        self.compiled = compilation.compile_step(self.forward, config)
        self.step = graphs.wrap_in_graph(self._step, config)

    def _make_adapters(
        self, config: EngineConfig, lora: LoRAConfig, dtype: torch.dtype, device: torch.device
    ) -> Adapters:
        named = lora.lora_dtype
        kept = (dtype if named == "auto" else getattr(torch, named)) if isinstance(named, str) else named
        wrapper = make_punica_wrapper(config, lora, device)
        targets = self._targets(wrapper, lora, kept, device)
        adapters = Adapters(wrapper, lora, targets, self.shape.vocab_size, device)
        for number, folder in enumerate(lora.lora_modules, start=1):
            adapters.add(number, read_adapter(Path(folder)))
        return adapters

    def _targets(
        self, wrapper: PunicaWrapperBase, lora: LoRAConfig, dtype: torch.dtype, device: torch.device
    ) -> Mapping[str, Target]:
        """Give slots to whatever takes adapters, and return the projections by their names."""
        targets: dict[str, Target] = {}
        allowed = lora.target_modules
        for layer in self.modules_with_adapters():
            if allowed is not None and not any(
                part.name.rpartition(".")[2] in allowed for part in layer.parts
            ):
                continue
            slots = AdapterSlots(wrapper, lora, layer.inputs, layer.outputs, dtype, device)
            layer.adapters = slots
            for index, part in enumerate(layer.parts):
                targets[part.name] = Target(
                    slots=slots, index=index, inputs=part.inputs, outputs=part.outputs, cut=part.cut
                )
        width, vocabulary = self.shape.hidden_size, self.embedding.vocabulary
        if allowed is None or "embed_tokens" in allowed:
            slots = AdapterSlots(wrapper, lora, vocabulary.size, (width,), dtype, device)
            self.embedding.adapters = slots
            targets["model.embed_tokens"] = Target(
                slots=slots, index=0, inputs=vocabulary.size, outputs=width
            )
        if allowed is None or "lm_head" in allowed:
            slots = AdapterSlots(wrapper, lora, width, (vocabulary.share,), dtype, device)
            self.head.adapters = slots
            own = Cut(0, vocabulary.start, vocabulary.held)
            targets["lm_head"] = Target(slots=slots, index=0, inputs=width, outputs=vocabulary.size, cut=own)
        return targets

    def modules_with_adapters(self) -> list[Linear]:
        """Return the linear layers that take adapters, in order."""
        found: list[Linear] = []
        for layer in self.decoder:
            if isinstance(layer.mixer, Mixer):
                found += [layer.mixer.qkv, layer.mixer.out]
            found += [layer.gate_up, layer.down]
        return found

    def layers(self) -> Mapping[str, AttentionLayerBase]:
        """Return the layers that keep a cache, by name."""
        keeping = [
            layer.mixer.attention if isinstance(layer.mixer, Mixer) else layer.mixer for layer in self.decoder
        ]
        return {layer.layer_name: layer for layer in keeping}

    def add_adapter(self, number: int, adapter: Adapter) -> None:
        """Make an adapter known to the model.

        Args:
            number: what requests call it, from 1.
            adapter: the adapter.

        Raises:
            ConfigError: the configuration has no `lora_config`, or the adapter does not fit the model.
            ValueError: the number is taken.
        """
        if self.adapters is None:
            raise ConfigError(
                f"adapter {number}: lora_config is None; expected one, which --enable-lora makes"
            )
        self.adapters.add(number, adapter)

    def forward(self, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Run the tokens of a step within a forward context.

        Args:
            token_ids: int64 `[T]`.
            positions: int64 `[T]`.

        Returns:
            States before the head, `[T, hidden]`.
        """
        x: torch.Tensor = self.embedding(token_ids)
        factors = self.rotary.factors(positions)
        residual: torch.Tensor | None = None
        for layer in self.decoder:
            x, residual = layer(x, residual, self.rotary, factors)
        if residual is not None:
            x = x + residual
        return x

    def _step(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        metadata: Mapping[str, AttentionMetadata],
        kv_caches: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """Run a step on what is passed here, which a graph may have replaced by memory of its own."""
        context = get_forward_context()
        context.attn_metadata, context.kv_caches = metadata, kv_caches
        return self.compiled(token_ids, positions)

    def run(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        metadata: Mapping[str, AttentionMetadata],
        kv_caches: Mapping[str, torch.Tensor],
        details: StepDetails | None = None,
    ) -> torch.Tensor:
        """Run the tokens of one step; see `platform_abc.components.worker.EngineModel`."""
        tokens = token_ids.shape[0]
        if self.adapters is not None:
            self.adapters.prepare(tokens, details)
        elif details is not None and any(details.lora_ids):
            raise ConfigError("a request names an adapter, but lora_config is None")
        rows = None if details is None else details.logit_rows
        decodes = rows is not None and len(rows) == tokens
        modes = self.config.compilation_config.cudagraph_mode
        mode = modes.decode_mode() if decodes else modes.mixed_mode()
        batch = BatchDescriptor(
            num_tokens=tokens,
            num_reqs=None if rows is None else len(rows),
            uniform=decodes,
            has_lora=self.adapters is not None and self.adapters.filled,
        )
        with (
            set_forward_context(self.config, metadata, kv_caches, tokens, cudagraph_runtime_mode=mode),
            graph_step(mode, batch),
        ):
            states = self.step(token_ids, positions, metadata, kv_caches)
            # Where each request has one token, as in decoding, all rows are wanted.
            if rows is not None and not decodes:
                states = states[torch.tensor(rows, device=states.device)]
            logits: torch.Tensor = self.head(rms_norm(states, self.norm, self.shape.epsilon))
            return logits


def build_model(
    config: EngineConfig, device: torch.device, /, group: GroupCoordinator | None = None
) -> LlamaForCausalLM:
    """Build the model; its layers enter `static_forward_context`.

    Args:
        config: the engine's configuration.
        device: where the weights go.
        group: the ranks that share it; None for this one alone.

    Raises:
        ConfigError: there is no model part, it is no Llama, or its folder cannot be read.
        ValueError: the platform refuses the architecture, or no attention backend serves a layer.
    """
    from platforms import current_platform

    model = config.model_config
    if model is None:
        raise ConfigError("model_config = None: expected a model to be loaded")
    current_platform.verify_model_arch(model.architecture)
    if isinstance(model.dtype, str):
        raise ConfigError(
            f"model_config.dtype = {model.dtype!r}: expected a torch.dtype once the engine runs"
        )
    config.compilation_config.static_forward_context.clear()
    with use_config(config), torch.inference_mode():
        return LlamaForCausalLM(config, model, model.dtype, device, group or GroupCoordinator())
