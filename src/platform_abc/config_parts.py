"""The other parts of a configuration: one class per part, checked field by field on assignment.

The classes are unslotted: a vendor may hang a value of its own on a part, and the engine shows it
among the changes. Fields keep the names that vendors' hooks already use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from platform_abc._config_checks import (
    BOOL,
    NAME,
    NOT_NEGATIVE,
    PORT,
    POSITIVE,
    TEXT,
    TEXT_KEYS,
    TEXTS,
    Check,
    between,
    either,
    instance_of,
    list_of,
    one_of,
    optional,
)
from platform_abc.config_model import TORCH_DTYPE
from platform_abc.config_values import (
    CACHE_DTYPES,
    AttentionBackendEnum,
    CacheDType,
    CompilationMode,
    CUDAGraphMode,
    IrOpPriorityConfig,
)

if TYPE_CHECKING:
    import torch

DEFAULT_BLOCK_SIZE: Final = 16
"""Tokens in one block of the KV cache where nobody asks for another size."""

STATE_DTYPES = ("auto", "float16", "bfloat16", "float32")
_DEVICE: Check[torch.device | str | None] = Check(
    lambda value: (
        value is None
        or (isinstance(value, str) and value.strip() != "")
        or (type(value).__module__ == "torch" and type(value).__name__ == "device")
    ),
    "None, a device name such as 'cpu', or a torch.device",
)


class _NotAsked(int):
    """The default block size, told apart from the same number given by the user."""


def _block_size(value: int | None) -> int:
    return _NotAsked(DEFAULT_BLOCK_SIZE) if value is None else value


def _was_asked(cache: CacheConfig) -> bool:
    return not isinstance(cache.block_size, _NotAsked)


@attrs.define(slots=False, kw_only=True)
class CacheConfig:
    """The KV cache: block size, storage dtype and memory.

    Args:
        block_size: tokens in one block; None takes the default, 16.
        user_specified_block_size: the block size is the user's wish; by default, whether one was given.
        cache_dtype: how keys and values are stored; `auto` is the model's dtype.
        kv_cache_dtype_skip_layers: layers (names or numbers) that keep the model's dtype all the same.
        gpu_memory_utilization: share of the device's memory that the engine may fill, whatever the device.
        kv_cache_memory_bytes: memory of the cache in bytes; None lets the engine measure.
        num_gpu_blocks_override: number of blocks, for tests; None computes it.
        mamba_block_size: tokens between two kept states; set by alignment.
        mamba_page_size_padded: bytes of one padded state page; set by alignment.
        skip_page_size_padded: bytes of one padded page of the skipped layers; set by alignment.
        mamba_cache_mode: which states are kept: `none`, `all` block ends, or `align` to blocks.
    """

    PATH: ClassVar[str] = "cache_config"
    DEFAULT_BLOCK_SIZE: ClassVar[int] = DEFAULT_BLOCK_SIZE

    block_size: int = attrs.field(
        default=None, converter=_block_size, validator=POSITIVE, on_setattr=attrs.setters.validate
    )
    user_specified_block_size: bool = attrs.field(
        default=attrs.Factory(_was_asked, takes_self=True), validator=BOOL
    )
    cache_dtype: CacheDType = attrs.field(default="auto", validator=one_of(CACHE_DTYPES))
    kv_cache_dtype_skip_layers: list[str] = attrs.field(factory=list, validator=TEXTS)
    gpu_memory_utilization: float = attrs.field(default=0.9, validator=between(0, 1, open_low=True))
    kv_cache_memory_bytes: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    num_gpu_blocks_override: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    num_gpu_blocks: int | None = attrs.field(default=None, validator=optional(NOT_NEGATIVE))
    num_cpu_blocks: int | None = attrs.field(default=None, validator=optional(NOT_NEGATIVE))
    kv_cache_layout: str | None = attrs.field(default=None, validator=optional(NAME))
    sliding_window: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    enable_prefix_caching: bool = attrs.field(default=True, validator=BOOL)
    is_attention_free: bool = attrs.field(default=False, validator=BOOL)
    mamba_block_size: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    mamba_page_size_padded: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    skip_page_size_padded: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    mamba_cache_dtype: str = attrs.field(default="auto", validator=one_of(STATE_DTYPES))
    mamba_ssm_cache_dtype: str = attrs.field(default="auto", validator=one_of(STATE_DTYPES))
    mamba_cache_mode: str = attrs.field(default="none", validator=one_of(("none", "all", "align")))

    def __attrs_post_init__(self) -> None:
        self.block_size = int(self.block_size)


@attrs.define(slots=False, kw_only=True)
class ParallelConfig:
    """How the model is divided, and which class runs one share.

    Args:
        worker_cls: dotted name of the worker class; `auto` asks the platform's hook to set it.
        distributed_executor_backend: `uni` (in this process), `mp` (worker processes), `ray`; None lets
            the engine choose.
        assigned_physical_gpu_ids: physical device of each local rank; None maps by the device variable.
        rank: this process's rank among `world_size`.
    """

    PATH: ClassVar[str] = "parallel_config"

    worker_cls: str = attrs.field(default="auto", validator=NAME)
    worker_extension_cls: str = attrs.field(default="", validator=TEXT)
    distributed_executor_backend: str | None = attrs.field(
        default=None, validator=optional(one_of(("uni", "mp", "ray", "external_launcher")))
    )
    tensor_parallel_size: int = attrs.field(default=1, validator=POSITIVE)
    pipeline_parallel_size: int = attrs.field(default=1, validator=POSITIVE)
    data_parallel_size: int = attrs.field(default=1, validator=POSITIVE)
    data_parallel_rank: int = attrs.field(default=0, validator=NOT_NEGATIVE)
    prefill_context_parallel_size: int = attrs.field(default=1, validator=POSITIVE)
    decode_context_parallel_size: int = attrs.field(default=1, validator=POSITIVE)
    enable_expert_parallel: bool = attrs.field(default=False, validator=BOOL)
    enable_dbo: bool = attrs.field(default=False, validator=BOOL)
    disable_custom_all_reduce: bool = attrs.field(default=False, validator=BOOL)
    assigned_physical_gpu_ids: list[int] | None = attrs.field(
        default=None, validator=optional(list_of(NOT_NEGATIVE, "device numbers from 0 on"))
    )
    master_addr: str = attrs.field(default="127.0.0.1", validator=NAME)
    master_port: int = attrs.field(default=29501, validator=PORT)
    rank: int = attrs.field(default=0, validator=NOT_NEGATIVE)

    @property
    def world_size(self) -> int:
        """Number of workers that share one copy of the model."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.prefill_context_parallel_size


@attrs.define(slots=False, kw_only=True)
class SchedulerConfig:
    """Which requests run in a step.

    Args:
        max_num_batched_tokens: tokens of one step, over all requests.
        max_num_seqs: requests of one step.
        is_multimodal_model: requests may carry images.
        disable_chunked_mm_input: an image is never split over two steps.
        async_scheduling: plan the next step while one runs; None lets the engine choose.
    """

    PATH: ClassVar[str] = "scheduler_config"

    runner_type: str = attrs.field(default="generate", validator=one_of(("generate", "pooling", "draft")))
    max_num_batched_tokens: int = attrs.field(default=2048, validator=POSITIVE)
    max_num_seqs: int = attrs.field(default=128, validator=POSITIVE)
    max_model_len: int = attrs.field(default=2048, validator=POSITIVE)
    enable_chunked_prefill: bool = attrs.field(default=True, validator=BOOL)
    is_multimodal_model: bool = attrs.field(default=False, validator=BOOL)
    disable_chunked_mm_input: bool = attrs.field(default=False, validator=BOOL)
    disable_hybrid_kv_cache_manager: bool | None = attrs.field(default=None, validator=optional(BOOL))
    policy: str = attrs.field(default="fcfs", validator=one_of(("fcfs", "priority")))
    scheduler_cls: str | type[object] | None = attrs.field(
        default=None, validator=optional(either(NAME, instance_of(type, "a class")))
    )
    async_scheduling: bool | None = attrs.field(default=None, validator=optional(BOOL))


@attrs.define(slots=False, kw_only=True)
class DeviceConfig:
    """The device that the engine runs on.

    Args:
        device: what was asked for; `auto` takes the platform's.
        device_type: torch's name of the device type, from the platform; empty before it is known.
    """

    PATH: ClassVar[str] = "device_config"

    device: torch.device | str | None = attrs.field(default="auto", validator=_DEVICE)
    device_type: str = attrs.field(default="", validator=TEXT)


@attrs.define(slots=False, kw_only=True)
class LoadConfig:
    """Where weights come from: `auto` looks in the folder, `dummy` makes seeded ones."""

    PATH: ClassVar[str] = "load_config"

    load_format: str = attrs.field(default="auto", validator=NAME)
    download_dir: str | None = attrs.field(default=None, validator=optional(NAME))
    device: str | None = attrs.field(default=None, validator=optional(NAME))


@attrs.define(slots=False, kw_only=True)
class AttentionConfig:
    """What the user asked of attention.

    Args:
        backend: the backend that was asked for; None lets the platform choose. One that is not valid
            on the device is an error, never replaced silently.
    """

    PATH: ClassVar[str] = "attention_config"

    backend: AttentionBackendEnum | None = attrs.field(
        default=None, validator=optional(instance_of(AttentionBackendEnum))
    )
    use_non_causal: bool = attrs.field(default=False, validator=BOOL)
    flash_attn_version: int | None = attrs.field(default=None, validator=optional(one_of((2, 3, 4))))


@attrs.define(slots=False, kw_only=True)
class KernelConfig:
    """Which kernels are used.

    Args:
        ir_op_priority: implementations of each IR op in order of preference; the user's first, then
            the platform's defaults.
    """

    PATH: ClassVar[str] = "kernel_config"

    ir_op_priority: IrOpPriorityConfig = attrs.field(
        factory=IrOpPriorityConfig, validator=instance_of(IrOpPriorityConfig)
    )
    moe_backend: str = attrs.field(default="auto", validator=NAME)
    linear_backend: str = attrs.field(default="auto", validator=NAME)


@attrs.define(slots=False, kw_only=True)
class LoRAConfig:
    """Low-rank adapters.

    Args:
        max_lora_rank: largest rank of an adapter.
        max_loras: adapters in one batch.
        lora_dtype: dtype of adapter weights; `auto` is the model's.
        lora_modules: folders of the adapters that are loaded at the start; a request names one by its
            place in this list, from 1.
    """

    PATH: ClassVar[str] = "lora_config"

    max_lora_rank: int = attrs.field(default=16, validator=POSITIVE)
    max_loras: int = attrs.field(default=1, validator=POSITIVE)
    max_cpu_loras: int | None = attrs.field(default=None, validator=optional(POSITIVE))
    fully_sharded_loras: bool = attrs.field(default=False, validator=BOOL)
    lora_dtype: torch.dtype | str = attrs.field(
        default="auto", validator=either(TORCH_DTYPE, one_of(("auto", "float16", "bfloat16", "float32")))
    )
    target_modules: list[str] | None = attrs.field(default=None, validator=optional(TEXTS))
    lora_modules: list[str] = attrs.field(factory=list, validator=list_of(NAME, "names of folders"))


@attrs.define(slots=False, kw_only=True)
class QuantizationConfig:
    """The quantization of the model that is loaded.

    Args:
        quant_method: the registered name of the method.
        options: what the model folder says of it.
    """

    PATH: ClassVar[str] = "quant_config"

    quant_method: str = attrs.field(validator=NAME)
    options: dict[str, Any] = attrs.field(factory=dict, validator=TEXT_KEYS)

    def get_name(self) -> str:
        """Return the registered name of the method."""
        return self.quant_method


@attrs.define(slots=False, kw_only=True)
class SpeculativeConfig:
    """Speculative decoding: the method, and how many tokens it guesses."""

    PATH: ClassVar[str] = "speculative_config"

    method: str = attrs.field(default="ngram", validator=NAME)
    num_speculative_tokens: int = attrs.field(default=1, validator=POSITIVE)


@attrs.define(slots=False, kw_only=True)
class ProfilerConfig:
    """What a profile of a run holds."""

    PATH: ClassVar[str] = "profiler_config"

    torch_profiler_dir: str = attrs.field(default="", validator=TEXT)
    torch_profiler_dump_cuda_time_total: bool = attrs.field(default=True, validator=BOOL)


@attrs.define(slots=False, kw_only=True)
class KVTransferConfig:
    """The connector that moves the KV cache between engines."""

    PATH: ClassVar[str] = "kv_transfer_config"

    kv_connector: str | None = attrs.field(default=None, validator=optional(NAME))
    kv_role: str | None = attrs.field(
        default=None, validator=optional(one_of(("kv_producer", "kv_consumer", "kv_both")))
    )
    enable_permute_local_kv: bool = attrs.field(default=False, validator=BOOL)
    kv_connector_extra_config: dict[str, Any] = attrs.field(factory=dict, validator=TEXT_KEYS)

    def has_connector(self, name: str) -> bool:
        """Say whether the connector `name` is used."""
        return self.kv_connector == name


@attrs.define(slots=False, kw_only=True)
class PassConfig:
    """Which fusions the compile pass manager runs."""

    PATH: ClassVar[str] = "compilation_config.pass_config"

    fuse_norm_quant: bool = attrs.field(default=False, validator=BOOL)
    fuse_act_quant: bool = attrs.field(default=False, validator=BOOL)
    fuse_attn_quant: bool = attrs.field(default=False, validator=BOOL)
    eliminate_noops: bool = attrs.field(default=False, validator=BOOL)


@attrs.define(slots=False, kw_only=True)
class CompilationConfig:
    """How the model is compiled and captured.

    Args:
        mode: how much is compiled.
        backend: the compile backend; empty asks the platform.
        custom_ops: `all`, `none`, and `+name` or `-name` for single ops, in order.
        compile_sizes: batch sizes, in tokens, that get a kernel of their own; None for none.
        cudagraph_mode: what is captured as a static graph, whatever the device.
        cudagraph_capture_sizes: batch sizes, in tokens, that are captured; None lets the engine choose.
        static_forward_context: layer name -> layer, filled while the model is built, in each process anew.
    """

    PATH: ClassVar[str] = "compilation_config"

    mode: CompilationMode = attrs.field(default=CompilationMode.NONE, validator=instance_of(CompilationMode))
    backend: str = attrs.field(default="", validator=TEXT)
    custom_ops: list[str] = attrs.field(factory=list, validator=list_of(NAME, "non-empty names of ops"))
    ir_enable_torch_wrap: bool = attrs.field(default=True, validator=BOOL)
    splitting_ops: list[str] | None = attrs.field(default=None, validator=optional(TEXTS))
    compile_sizes: list[int | str] | None = attrs.field(
        default=None, validator=optional(list_of(either(POSITIVE, NAME), "token counts or names"))
    )
    inductor_compile_config: dict[str, Any] = attrs.field(factory=dict, validator=TEXT_KEYS)
    inductor_passes: dict[str, str] = attrs.field(factory=dict, validator=TEXT_KEYS)
    cudagraph_mode: CUDAGraphMode = attrs.field(
        default=CUDAGraphMode.NONE, validator=instance_of(CUDAGraphMode)
    )
    cudagraph_capture_sizes: list[int] | None = attrs.field(
        default=None, validator=optional(list_of(POSITIVE, "token counts from 1 on"))
    )
    cudagraph_num_of_warmups: int = attrs.field(default=0, validator=NOT_NEGATIVE)
    pass_config: PassConfig = attrs.field(factory=PassConfig, validator=instance_of(PassConfig))
    static_forward_context: dict[str, Any] = attrs.field(
        factory=dict, validator=TEXT_KEYS, eq=False, repr=False
    )
