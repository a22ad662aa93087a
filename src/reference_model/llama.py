"""The Llama family: a decoder of everything that the platform picks, whole or one rank's share of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from platform_abc.components.graph import BatchDescriptor, graph_step
from platform_abc.config import use_config
from platform_abc.errors import ConfigError
from reference_model import compilation, quantization
from reference_model.attention_layer import Attention
from reference_model.forward_context import get_forward_context, set_forward_context
from reference_model.ir_ops import core_kernel, fused_add_rms_norm, rms_norm
from reference_model.linear import Build, Embedding, Head, Linear, Part, Vocabulary
from reference_model.lora import Adapters
from reference_model.mamba_layer import MambaLayer
from reference_model.model_config import shape_of
from reference_model.parallel import GroupCoordinator
from reference_model.rotary import rotary_table
from reference_model.weights import Cut, Weights, weight_files

if TYPE_CHECKING:
    from platform_abc.components.attention import AttentionLayerBase, AttentionMetadata
    from platform_abc.components.worker import StepDetails
    from platform_abc.config import EngineConfig, ModelConfig


class Mixer(torch.nn.Module):
    """Attention between its projections.

    Args:
        build: what it is built from.
        index: of the layer.
    """

    def __init__(self, build: Build, index: int) -> None:
        super().__init__()
        model, shape = build.model, build.shape
        name, size, width = f"model.layers.{index}.self_attn", model.get_head_size(), model.hidden_size
        queries, stored = model.num_attention_heads * size, model.get_total_num_kv_heads() * size
        self.rotary_embedding = core_kernel("rotary_embedding", build.weights.device)
        self.attention = Attention(build, index)
        self.heads, self.kv_heads, self.size = self.attention.num_heads, self.attention.num_kv_heads, size
        kv_cut = _kv_share(build)
        self.qkv = Linear(
            build,
            [
                Part(name=f"{name}.q_proj", outputs=queries, inputs=width, cut=build.share(0, queries)),
                Part(name=f"{name}.k_proj", outputs=stored, inputs=width, cut=kv_cut),
                Part(name=f"{name}.v_proj", outputs=stored, inputs=width, cut=kv_cut),
            ],
            bias=shape.attention_bias,
        )
        out = Part(name=f"{name}.o_proj", outputs=width, inputs=queries, cut=build.share(1, queries))
        self.out = Linear(build, [out], bias=shape.attention_bias)
        self.attention.prepare()

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Attend.

        Args:
            x: `[T, hidden]`.
            cos: `[T, D / 2]`, of the angles by which queries and keys are turned.
            sin: as `cos`.
        """
        heads = self.qkv(x).view(-1, self.heads + 2 * self.kv_heads, self.size)
        turned = self.rotary_embedding(heads[:, : self.heads + self.kv_heads], cos, sin)
        query, key = torch.split(turned, [self.heads, self.kv_heads], dim=1)
        value = heads[:, self.heads + self.kv_heads :]
        attended = self.attention(query.contiguous(), key.contiguous(), value.contiguous())
        answer: torch.Tensor = self.out(attended)
        return answer


def _kv_share(build: Build) -> Cut | None:
    """Return this rank's key and value heads; neighbours keep a copy of one where there are fewer than ranks."""
    ranks, heads = build.group.world_size, build.model.get_total_num_kv_heads()
    size = build.model.get_head_size()
    if ranks == 1:
        return None
    return Cut(0, build.group.rank * heads // ranks * size, max(1, heads // ranks) * size)


class DecoderLayer(torch.nn.Module):
    """One layer: attention or a recurrence, and a gated feed-forward part, each normed and added to its input.

    Args:
        build: what it is built from.
        index: of the layer.
    """

    def __init__(self, build: Build, index: int) -> None:
        super().__init__()
        shape, weights = build.shape, build.weights
        name, width, inner = f"model.layers.{index}", build.model.hidden_size, shape.intermediate_size
        self.epsilon = shape.epsilon
        self.silu_and_mul = core_kernel("silu_and_mul", weights.device)
        recurs = build.model.kind_of_layer(index) == "mamba"
        self.mixer = MambaLayer(build, index) if recurs else Mixer(build, index)
        rows = build.share(0, inner)
        gate_up = [
            Part(name=f"{name}.mlp.{part}_proj", outputs=inner, inputs=width, cut=rows)
            for part in ("gate", "up")
        ]
        self.gate_up = Linear(build, gate_up, bias=shape.mlp_bias)
        down = Part(name=f"{name}.mlp.down_proj", outputs=width, inputs=inner, cut=build.share(1, inner))
        self.down = Linear(build, [down], bias=shape.mlp_bias)
        self.norm = weights.take(f"{name}.input_layernorm.weight", (width,))
        self.second_norm = weights.take(f"{name}.post_attention_layernorm.weight", (width,))

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the layer.

        Args:
            x: `[T, hidden]`, what the layer before gave.
            residual: `[T, hidden]`, what is to be added to it; None for the first layer.
            cos: `[T, D / 2]`, of the angles by which queries and keys are turned.
            sin: as `cos`.

        Returns:
            What this layer gives, and what is to be added to it.
        """
        if residual is None:
            normed, added = rms_norm(x, self.norm, self.epsilon), x
        else:
            normed, added = fused_add_rms_norm(x, residual, self.norm, self.epsilon)
        mixed = self.mixer(normed, cos, sin)
        normed, added = fused_add_rms_norm(mixed, added, self.second_norm, self.epsilon)
        return self.down(self.silu_and_mul(self.gate_up(normed))), added


class LlamaForCausalLM(torch.nn.Module):
    """The model, as a worker runs it; see `build_model`.

    Args:
        config: the engine's configuration.
        model: its model part.
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
        weights = Weights(weight_files(config, model.model), model.seed, device, dtype)
        vocabulary = Vocabulary(model.vocab_size, model.hidden_size, group)
        self.embedding = Embedding(weights, vocabulary)
        build = Build(config, model, shape, weights, quantization.make_method(config, dtype), group)
        self.decoder = torch.nn.ModuleList(DecoderLayer(build, index) for index in range(model.num_layers))
        self.norm = weights.take("model.norm.weight", (model.hidden_size,))
        self.head = Head(
            self.embedding.weight if shape.tied else vocabulary.load(weights, "lm_head.weight"), vocabulary
        )
        weights.check_all_read(("lm_head.weight",) if shape.tied else ())
        table = rotary_table(model.get_head_size(), shape.rope, model.max_model_len)
        self.cos, self.sin = (one.to(device) for one in table)
        self.adapters: Adapters | None = None
        if config.lora_config is not None:
            adaptable = [one for one in self.modules() if isinstance(one, Linear | Embedding | Head)]
            self.adapters = Adapters(config, adaptable, model.vocab_size, dtype, device)
        self.compiled = compilation.compile_step(self.forward, config)
        self.step = compilation.wrap_in_graph(self._step, config)

    def layers(self) -> Mapping[str, AttentionLayerBase]:
        """Return the layers that keep a cache, by name."""
        return {one.layer_name: one for one in self.modules() if isinstance(one, Attention | MambaLayer)}

    def forward(self, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Run the tokens of a step within a forward context.

        Args:
            token_ids: int64 `[T]`.
            positions: int64 `[T]`.

        Returns:
            States before the head, `[T, hidden]`.
        """
        x: torch.Tensor = self.embedding(token_ids)
        cos, sin = self.cos[positions], self.sin[positions]
        residual: torch.Tensor | None = None
        for layer in self.decoder:
            x, residual = layer(x, residual, cos, sin)
        return x if residual is None else x + residual

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
    # No inference mode here: adapters change their slots later, also on a platform whose steps have another mode.
    with use_config(config), torch.no_grad():
        return LlamaForCausalLM(config, model, model.dtype, device, group or GroupCoordinator())
