"""Plain values that a configuration is made of: modes, dtypes, and what the attention picker is asked.

Names and spellings are those that vendors' hooks already use.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, get_args

import attrs

from platform_abc._config_checks import NAME, field_path, list_of, shown
from platform_abc.errors import ConfigError

if TYPE_CHECKING:
    import torch

CacheDType = Literal[
    "auto",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_ds_mla",
    "nvfp4_ds_mla",
    "turboquant_k8v4",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
    "ultraquant_4bit",
    "int4_per_token_head",
    "int8_per_token_head",
    "fp8_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
]
"""How keys and values are stored; `auto` means the model's own dtype."""

CACHE_DTYPES: Final[tuple[str, ...]] = get_args(CacheDType)

MODEL_DTYPES: Final = ("auto", "half", "float16", "bfloat16", "float", "float32")
"""The spellings of a model's dtype before the engine has turned it into a `torch.dtype`."""


class AttentionType(enum.StrEnum):
    """What attends to what."""

    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_ONLY = "encoder_only"
    ENCODER_DECODER = "encoder_decoder"


class AttentionBackendEnum(enum.Enum):
    """The attention backends that a user can ask for by name.

    The name is what `--attention-backend` takes. `CUSTOM` is for a backend that only the platform
    knows. Whether a backend is valid on a device is the platform's answer, not this list's.
    """

    TORCH_SDPA = "TORCH_SDPA"
    CPU_ATTN = "CPU_ATTN"
    CPU_MLA = "CPU_MLA"
    FLASH_ATTN = "FLASH_ATTN"
    FLASHINFER = "FLASHINFER"
    FLASHINFER_MLA = "FLASHINFER_MLA"
    FLASH_ATTN_MLA = "FLASH_ATTN_MLA"
    FLASHMLA = "FLASHMLA"
    FLEX_ATTENTION = "FLEX_ATTENTION"
    TRITON_ATTN = "TRITON_ATTN"
    TRITON_MLA = "TRITON_MLA"
    ROCM_ATTN = "ROCM_ATTN"
    ROCM_AITER_FA = "ROCM_AITER_FA"
    ROCM_AITER_MLA = "ROCM_AITER_MLA"
    XPU_ATTN = "XPU_ATTN"
    PALLAS = "PALLAS"
    CUSTOM = "CUSTOM"


class CompilationMode(enum.IntEnum):
    """How the model is compiled, in rising order of effort."""

    NONE = 0
    STOCK_TORCH_COMPILE = 1
    DYNAMO_TRACE_ONCE = 2
    VLLM_COMPILE = 3


class CUDAGraphMode(enum.Enum):
    """Which parts of a step are captured as a static graph, whatever the device is."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (FULL, NONE)
    FULL_AND_PIECEWISE = (FULL, PIECEWISE)

    def decode_mode(self) -> CUDAGraphMode:
        """Return the mode of batches that only decode."""
        return CUDAGraphMode(self.value[0]) if isinstance(self.value, tuple) else self

    def mixed_mode(self) -> CUDAGraphMode:
        """Return the mode of batches that also prefill."""
        return CUDAGraphMode(self.value[1]) if isinstance(self.value, tuple) else self

    def has_mode(self, mode: CUDAGraphMode) -> bool:
        """Say whether some batches run in `mode`."""
        return mode in (self.decode_mode(), self.mixed_mode())

    def has_full_cudagraphs(self) -> bool:
        """Say whether some batches run as one whole graph."""
        return self.has_mode(CUDAGraphMode.FULL)

    def has_piecewise_cudagraphs(self) -> bool:
        """Say whether some batches run as graphs of pieces."""
        return self.has_mode(CUDAGraphMode.PIECEWISE)


class AttentionSelectorConfig(NamedTuple):
    """What the attention picker is asked: the facts of one kind of attention layer.

    A new fact becomes a new field with a default, so no picker's signature changes. It is hashable,
    because the selector caches by it.

    Args:
        head_size: elements of one head.
        dtype: dtype of queries.
        kv_cache_dtype: how keys and values are stored; None where nothing is said.
        block_size: tokens in one block of the KV cache; None before it is chosen.
    """

    head_size: int
    dtype: torch.dtype
    kv_cache_dtype: CacheDType | None
    block_size: int | None
    use_mla: bool = False
    has_sink: bool = False
    use_sparse: bool = False
    use_mm_prefix: bool = False
    use_per_head_quant_scales: bool = False
    attn_type: str = AttentionType.DECODER.value
    has_sliding_window: bool = False
    use_non_causal: bool = False
    use_batch_invariant: bool = False
    use_kv_connector: bool = False
    use_pcp: bool = False
    use_adaptive_verification: bool = False
    use_dcp: bool = False
    use_rswa: bool = False


class MLAPrefillSelectorConfig(NamedTuple):
    """What the picker of the prefill backend for latent attention is asked.

    Args:
        dtype: dtype of queries.
        is_r1_compatible: the head sizes are those of the first model family of this kind.
    """

    dtype: torch.dtype
    is_r1_compatible: bool = False


_PROVIDERS = list_of(NAME, "non-empty names of implementations")


def _check_providers(owner: object, attribute: attrs.Attribute[list[str]], value: list[str]) -> None:
    _PROVIDERS(owner, attribute, value)
    repeated = sorted({name for name in value if value.count(name) > 1})
    if repeated:
        path = field_path(owner, attribute.name)
        raise ConfigError(
            f"{path} = {shown(value)}: expected each name once, repeated: {', '.join(repeated)}"
        )


def _to_list(value: str | list[str]) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


@attrs.define(slots=False, kw_only=True)
class IrOpPriorityConfig:
    """Which implementation of each IR op is tried first, by op.

    Each field is the list of implementation names in order of preference; one comma-separated
    string is accepted too.
    """

    PATH: ClassVar[str] = "kernel_config.ir_op_priority"

    rms_norm: list[str] = attrs.field(factory=list, converter=_to_list, validator=_check_providers)
    fused_add_rms_norm: list[str] = attrs.field(factory=list, converter=_to_list, validator=_check_providers)
    gelu_and_mul_sparse: list[str] = attrs.field(factory=list, converter=_to_list, validator=_check_providers)

    @classmethod
    def with_default(cls, default: list[str], /, **priorities: list[str]) -> IrOpPriorityConfig:
        """Make a config in which every op that is not named has the same list.

        Args:
            default: the list of the others, in order of preference.
            **priorities: the list of one op each.

        Raises:
            TypeError: a name is no op.
        """
        known = [field.name for field in attrs.fields(cls)]
        unknown = sorted(set(priorities) - set(known))
        if unknown:
            raise TypeError(f"no such IR op: {', '.join(unknown)} (there are: {', '.join(known)})")
        return cls(**{name: list(priorities.get(name, default)) for name in known})

    def by_op(self) -> dict[str, list[str]]:
        """Return op name -> implementation names in order of preference."""
        return {field.name: list(getattr(self, field.name)) for field in attrs.fields(type(self))}

    def completed_by(self, defaults: IrOpPriorityConfig) -> IrOpPriorityConfig:
        """Return what the user asked for, followed by the platform's defaults that are not in it.

        Args:
            defaults: the platform's answer.
        """
        asked, given = self.by_op(), defaults.by_op()
        merged = {op: [*names, *(n for n in given[op] if n not in names)] for op, names in asked.items()}
        return IrOpPriorityConfig(**merged)
