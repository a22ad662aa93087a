"""The part of a configuration that describes the model.

Sizes are those of the whole model; the methods give one rank's share.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar, Literal

import attrs

from platform_abc._config_checks import (
    BOOL,
    NAME,
    NOT_NEGATIVE,
    POSITIVE,
    TEXT,
    WHOLE,
    Check,
    either,
    instance_of,
    is_torch_dtype,
    list_of,
    one_of,
    optional,
)
from platform_abc.config_values import MODEL_DTYPES

if TYPE_CHECKING:
    import torch

    from platform_abc.config_parts import ParallelConfig

LayerKind = Literal["attention", "mamba"]

TORCH_DTYPE: Check[torch.dtype] = Check(is_torch_dtype, "a torch.dtype")
ANY_DTYPE: Check[torch.dtype | str] = either(TORCH_DTYPE, one_of(MODEL_DTYPES))


def _plain_description(model: ModelConfig) -> SimpleNamespace:
    return SimpleNamespace(model_type="toy", architectures=[model.architecture])


@attrs.define(slots=False, kw_only=True)
class ModelConfig:
    """The model: where it is, its shape and its dtype.

    Args:
        model: folder or name of the weights.
        architecture: the name of the model class, `LlamaForCausalLM`.
        dtype: dtype of weights and activations; the engine has turned a spelling into a
            `torch.dtype` before any hook sees it.
        max_model_len: longest sequence, prompt and output together, in tokens.
        quantization: name of the quantization method; None for none.
        hf_config: the model folder's own description, as attributes; `model_type` and `architectures` at least.
        head_size: elements of one attention head; 0 derives it from `hidden_size`.
        num_kv_heads: key and value heads of the whole model; 0 means as many as attention heads.
        layer_kinds: one entry a layer; empty means attention everywhere.
        is_mm_prefix_lm: images attend in both directions, so a chunk may not split one.
        is_hybrid: some layers keep a state instead of keys and values.
        has_inner_state: the model keeps a state between steps.
        use_mla: attention over a compressed latent, one per token.
    """

    PATH: ClassVar[str] = "model_config"

    model: str = attrs.field(default="toy", validator=NAME)
    architecture: str = attrs.field(default="LlamaForCausalLM", validator=NAME)
    tokenizer: str | None = attrs.field(default=None, validator=optional(NAME))
    dtype: torch.dtype | str = attrs.field(default="auto", validator=ANY_DTYPE)
    seed: int = attrs.field(default=0, validator=NOT_NEGATIVE)
    max_model_len: int = attrs.field(default=2048, validator=POSITIVE)
    quantization: str | None = attrs.field(default=None, validator=optional(NAME))
    enforce_eager: bool = attrs.field(default=False, validator=BOOL)
    enable_sleep_mode: bool = attrs.field(default=False, validator=BOOL)
    disable_sliding_window: bool = attrs.field(default=False, validator=BOOL)
    trust_remote_code: bool = attrs.field(default=False, validator=BOOL)
    runner_type: str = attrs.field(default="generate", validator=one_of(("generate", "pooling", "draft")))
    hf_config: SimpleNamespace = attrs.field(
        default=attrs.Factory(_plain_description, takes_self=True),
        validator=instance_of(SimpleNamespace, "a types.SimpleNamespace"),
    )
    hidden_size: int = attrs.field(default=64, validator=POSITIVE)
    num_layers: int = attrs.field(default=2, validator=POSITIVE)
    num_attention_heads: int = attrs.field(default=2, validator=POSITIVE)
    num_kv_heads: int = attrs.field(default=0, validator=NOT_NEGATIVE)
    head_size: int = attrs.field(default=0, validator=NOT_NEGATIVE)
    vocab_size: int = attrs.field(default=256, validator=POSITIVE)
    sliding_window: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    layer_kinds: list[LayerKind] = attrs.field(
        factory=list, validator=list_of(one_of(("attention", "mamba")), "'attention' or 'mamba'")
    )
    is_mm_prefix_lm: bool = attrs.field(default=False, validator=BOOL)
    is_multimodal_model: bool = attrs.field(default=False, validator=BOOL)
    is_encoder_decoder: bool = attrs.field(default=False, validator=BOOL)
    is_hybrid: bool = attrs.field(default=False, validator=BOOL)
    is_attention_free: bool = attrs.field(default=False, validator=BOOL)
    has_inner_state: bool = attrs.field(default=False, validator=BOOL)
    use_mla: bool = attrs.field(default=False, validator=BOOL)
    revision: str | None = attrs.field(default=None, validator=optional(TEXT))
    max_logprobs: int = attrs.field(default=20, validator=WHOLE)

    @property
    def hf_text_config(self) -> SimpleNamespace:
        """The description of the text part, which is the whole where there is no other part."""
        text: object = getattr(self.hf_config, "text_config", None)
        return text if isinstance(text, SimpleNamespace) else self.hf_config

    @property
    def architectures(self) -> list[str]:
        """The names of the model class, as a list of one."""
        return [self.architecture]

    def get_head_size(self) -> int:
        """Return the elements of one attention head."""
        return self.head_size or self.hidden_size // self.num_attention_heads

    def get_hidden_size(self) -> int:
        """Return the width of the residual stream, in elements."""
        return self.hidden_size

    def get_vocab_size(self) -> int:
        """Return the number of tokens that the model knows."""
        return self.vocab_size

    def get_total_num_kv_heads(self) -> int:
        """Return the key and value heads of the whole model; latent attention has one."""
        if self.use_mla:
            return 1
        return self.num_kv_heads or self.num_attention_heads

    def get_num_kv_heads(self, parallel_config: ParallelConfig) -> int:
        """Return the key and value heads of one tensor-parallel rank, at least one.

        Args:
            parallel_config: says among how many ranks the heads are divided. Where there are fewer
                heads than ranks, each rank keeps a copy of one.
        """
        return max(1, self.get_total_num_kv_heads() // parallel_config.tensor_parallel_size)

    def get_num_attention_heads(self, parallel_config: ParallelConfig) -> int:
        """Return the query heads of one tensor-parallel rank."""
        return self.num_attention_heads // parallel_config.tensor_parallel_size

    def get_num_layers(self, parallel_config: ParallelConfig) -> int:
        """Return the layers of the largest pipeline stage.

        Args:
            parallel_config: says in how many stages the layers are divided.
        """
        return -(-self.num_layers // parallel_config.pipeline_parallel_size)

    def kind_of_layer(self, index: int) -> LayerKind:
        """Return what layer `index`, from 0, keeps: keys and values, or a state."""
        return self.layer_kinds[index] if self.layer_kinds else "attention"
