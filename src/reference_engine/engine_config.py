"""Creation of the configuration: the config hooks in their order, each one's work checked."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, TypeVar, cast

from platform_abc._config_checks import POSITIVE, is_torch_dtype
from platform_abc.config import (
    AttentionBackendEnum,
    AttentionConfig,
    CacheConfig,
    CompilationConfig,
    CompilationMode,
    CUDAGraphMode,
    DeviceConfig,
    EngineConfig,
    IrOpPriorityConfig,
    LoadConfig,
    LoRAConfig,
    ModelConfig,
    ParallelConfig,
    QuantizationConfig,
    SchedulerConfig,
)
from platform_abc.config_values import MODEL_DTYPES
from platform_abc.errors import ConfigError
from platform_abc.hooks.calls import named, observed, owner
from reference_engine.args import EXECUTORS
from reference_engine.model_args import describe_model
from reference_model.quantization import resolve_quantization

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from platform_abc.config import CacheDType
    from platform_abc.platform import Platform
    from reference_engine.args import EngineArgs

logger = logging.getLogger(__name__)

LARGE_DEVICE_BYTES = 70 << 30
"""From this much memory on, a step holds more tokens by default."""
SMALL_BATCH = 2048
LARGE_BATCH = 8192
"""Tokens of a step by default, on a small device and on a large one."""

_FIRST_LARGE, _LATEST_LARGE = 80, 100
"""Device capabilities, as `major * 10 + minor`."""

T = TypeVar("T")


def create_engine_config(args: EngineArgs) -> EngineConfig:
    """Create the configuration in the front end.

    Args:
        args: what the user said.

    Returns:
        A configuration that all hooks have seen, and that is valid as a whole.

    Raises:
        ConfigError: the user or a hook wrote something invalid; it says which.
        ValueError: the platform refuses a setting.
    """
    from platforms import current_platform

    _refuse_no_device(current_platform)
    with named("pre_register_and_update", current_platform):
        current_platform.pre_register_and_update()
    with named("validate_environ", current_platform):
        current_platform.validate_environ(args.hard_fail_environ)
    config = build_config(args, current_platform)
    config.validate(written_by="the user")
    run_config_hooks(config, current_platform)
    return config


def _refuse_no_device(platform: Platform) -> None:
    if platform.is_unspecified():
        raise ConfigError(
            "no device was detected, so there is nothing to run on: `python -m platform_abc` tells what was tried; "
            "PLATFORM_ABC_TARGET_DEVICE=cpu takes the processor"
        )
    if platform.is_out_of_tree():
        logger.info("running on the out-of-tree platform %s", type(platform).__name__)


def run_config_hooks(config: EngineConfig, platform: Platform) -> None:
    """Run the hooks of config construction, in their order; again on the same config changes nothing.

    Args:
        config: changed in place.
        platform: whose hooks run.

    Raises:
        ConfigError: a hook wrote something invalid, or left the worker class open.
    """
    with named("get_device_capability", platform):
        capability = platform.get_device_capability()
    logger.debug("device capability: %s", capability)
    with observed("apply_config_platform_defaults", platform, config):
        platform.apply_config_platform_defaults(config)
    with observed("get_default_ir_op_priority", platform, config):
        defaults = platform.get_default_ir_op_priority(config)
        if not isinstance(defaults, IrOpPriorityConfig):
            raise ConfigError(f"expected an IrOpPriorityConfig as the answer, got {defaults!r}")
        kernels = config.kernel_config
        kernels.ir_op_priority = kernels.ir_op_priority.completed_by(defaults)
    _settle_graphs(config, platform)
    _settle_compilation(config, platform)
    with observed("check_and_update_config", platform, config):
        platform.check_and_update_config(config)
    if config.parallel_config.worker_cls == "auto":
        raise ConfigError(
            "parallel_config.worker_cls = 'auto': expected the dotted name of a worker class, which "
            f"{owner(platform, 'check_and_update_config')} must set"
        )
    with named("support_hybrid_kv_cache", platform):
        if not platform.support_hybrid_kv_cache():
            config.scheduler_config.disable_hybrid_kv_cache_manager = True


def _settle_graphs(config: EngineConfig, platform: Platform) -> None:
    compilation = config.compilation_config
    if compilation.cudagraph_mode is CUDAGraphMode.NONE or platform.support_static_graph_mode():
        return
    logger.warning(
        "static graphs are not supported on %s: compilation_config.cudagraph_mode is NONE instead of %s",
        platform.device_name,
        compilation.cudagraph_mode.name,
    )
    compilation.cudagraph_mode = CUDAGraphMode.NONE


def _settle_compilation(config: EngineConfig, platform: Platform) -> None:
    compilation = config.compilation_config
    if compilation.mode is not CompilationMode.NONE and not compilation.backend:
        with observed("get_compile_backend", platform, config):
            compilation.backend = platform.get_compile_backend()


def build_config(args: EngineArgs, platform: Platform) -> EngineConfig:
    """Make the parts from what the user said, before any config hook has seen them.

    Args:
        args: what the user said.
        platform: asked for dtypes, limits and names.

    Raises:
        ConfigError: a value is invalid.
        ValueError: the platform refuses the dtype, the length or the quantization.
    """
    if args.lora_modules and not args.enable_lora:
        raise ConfigError(f"lora_modules = {args.lora_modules!r}: expected enable_lora beside it")
    model = _model_config(args, platform)
    return EngineConfig(
        model_config=model,
        cache_config=CacheConfig(
            block_size=args.block_size,
            cache_dtype=_cache_dtype(args.kv_cache_dtype, platform),
            gpu_memory_utilization=args.gpu_memory_utilization,
            kv_cache_memory_bytes=args.kv_cache_memory_bytes,
            num_gpu_blocks_override=args.num_gpu_blocks_override,
            num_cpu_blocks=args.num_cpu_blocks,
            sliding_window=model.sliding_window,
        ),
        parallel_config=ParallelConfig(
            tensor_parallel_size=args.tensor_parallel_size,
            distributed_executor_backend=_by_name(EXECUTORS, "executor", args.executor),
            worker_cls=args.worker_cls,
            disable_custom_all_reduce=not platform.use_custom_allreduce(),
            assigned_physical_gpu_ids=_assigned(args.device_ids, platform),
        ),
        scheduler_config=SchedulerConfig(
            max_num_seqs=args.max_num_seqs,
            max_model_len=model.max_model_len,
            max_num_batched_tokens=args.max_num_batched_tokens or default_batched_tokens(platform),
            enable_chunked_prefill=args.enable_chunked_prefill and _chunks_prompts(platform),
            is_multimodal_model=model.is_multimodal_model,
        ),
        device_config=DeviceConfig(
            # Where inputs are prepared on the host, the config's device is the host, whatever computes.
            device="cpu" if platform.uses_host_device_handling() else platform.device_type,
            device_type=platform.device_type,
        ),
        attention_config=AttentionConfig(
            backend=None
            if args.attention_backend is None
            else _by_name(AttentionBackendEnum.__members__, "attention_backend", args.attention_backend)
        ),
        compilation_config=CompilationConfig(
            mode=_by_name(CompilationMode.__members__, "compilation_mode", args.compilation_mode),
            cudagraph_mode=_by_name(CUDAGraphMode.__members__, "cudagraph_mode", args.cudagraph_mode),
            custom_ops=copy.copy(args.custom_ops),
        ),
        load_config=LoadConfig(load_format=args.load_format),
        lora_config=LoRAConfig(
            max_loras=args.max_loras,
            max_lora_rank=args.max_lora_rank,
            lora_modules=copy.copy(args.lora_modules),
        )
        if args.enable_lora
        else None,
        quant_config=QuantizationConfig(quant_method=args.quantization) if args.quantization else None,
        additional_config=copy.deepcopy(args.additional_config),
    )


def _chunks_prompts(platform: Platform) -> bool:
    """Say whether a prompt may run in parts; processors of these kinds have no kernel that reads the first part."""
    if not platform.is_cpu():
        return True
    return getattr(platform.get_cpu_architecture(), "name", "") not in ("POWERPC", "S390X", "RISCV")


def _by_name(known: Mapping[str, T], name: str, value: str) -> T:
    if value not in known:
        raise ConfigError(f"{name} = {value!r}: expected one of {', '.join(known)}")
    return known[value]


def _cache_dtype(name: str, platform: Platform) -> CacheDType:
    if name in ("fp8", "fp8_e4m3"):
        if not platform.supports_fp8():
            raise ConfigError(
                f"cache_config.cache_dtype = {name!r}: expected a dtype that {platform.device_name} computes in, and "
                f"supports_fp8 of {type(platform).__name__} says no"
            )
        fnuz, dtype = platform.is_fp8_fnuz(), platform.fp8_dtype()
        if fnuz != str(dtype).endswith("fnuz"):
            raise ConfigError(
                f"cache_config.cache_dtype = {name!r}: {type(platform).__name__} says is_fp8_fnuz = {fnuz}, but its "
                f"fp8_dtype is {dtype}; expected them to agree"
            )
    # The part refuses a name that is none; this only tells the checkers that it was a string.
    return cast("CacheDType", name)


def _assigned(entries: Sequence[str] | None, platform: Platform) -> list[int] | None:
    """Return the physical number of each device that the user asked for, in the order of local ranks."""
    if not entries:
        return None
    with named("device_control_id_to_physical_device_id", platform):
        return [platform.device_control_id_to_physical_device_id(entry) for entry in entries]


def _model_config(args: EngineArgs, platform: Platform) -> ModelConfig:
    quantization = args.quantization
    if quantization is not None:
        resolve_quantization(quantization, platform)
    described = describe_model(args)
    return ModelConfig(
        dtype=resolve_dtype(_wanted_dtype(args.dtype, described.dtype, platform), platform),
        seed=args.seed,
        max_model_len=_allowed_length(described.max_model_len, platform),
        quantization=quantization,
        **described.fields,
    )


def _wanted_dtype(asked: str, stored: str | None, platform: Platform) -> str:
    """Return the dtype that the user asked for; else the folder's, where the platform computes in it."""
    if asked != "auto" or stored is None:
        return asked
    supported = {str(dtype).removeprefix("torch.") for dtype in platform.supported_dtypes or ()}
    return stored if stored in supported else asked


def _allowed_length(asked: int, platform: Platform) -> int:
    if not POSITIVE.accepts(asked):
        raise ConfigError(f"model_config.max_model_len = {asked!r}: expected {POSITIVE.expected}")
    with named("check_max_model_len", platform):
        allowed = platform.check_max_model_len(asked)
    if not POSITIVE.accepts(allowed):
        raise ConfigError(
            f"model_config.max_model_len: {owner(platform, 'check_max_model_len')} made {allowed!r} of {asked}, "
            f"expected {POSITIVE.expected}"
        )
    return allowed


def resolve_dtype(name: str, platform: Platform) -> torch.dtype:
    """Turn the spelling of a dtype into a `torch.dtype` that the platform computes in.

    Args:
        name: `auto` takes the platform's first.
        platform: asked for what it supports.

    Raises:
        ConfigError: there is no such dtype, or the platform lists none.
        ValueError: the platform refuses it.
    """
    import torch

    if name == "auto":
        supported = platform.supported_dtypes
        if not supported:
            raise ConfigError(
                f"model_config.dtype = 'auto': {type(platform).__name__} lists no supported dtype"
            )
        if not is_torch_dtype(cast("object", supported[0])):
            raise ConfigError(
                f"model_config.dtype = 'auto': {type(platform).__name__} lists {supported[0]!r} as a supported "
                "dtype, expected a torch.dtype"
            )
        return supported[0]
    if name not in MODEL_DTYPES:
        raise ConfigError(f"model_config.dtype = {name!r}: expected one of {', '.join(MODEL_DTYPES)}")
    dtype: torch.dtype = getattr(torch, name)
    try:
        platform.check_if_supports_dtype(dtype)
    except NotImplementedError:
        # `NotSupported`, or an older platform's way to say the same.
        logger.debug("%s does not check dtypes before a worker starts", type(platform).__name__)
    return dtype


def default_batched_tokens(platform: Platform) -> int:
    """Return the tokens of a step where the user says nothing: more on a device with much memory.

    Args:
        platform: asked for memory and name; one that does not answer counts as small.
    """
    try:
        large = platform.get_device_total_memory() >= LARGE_DEVICE_BYTES
        logger.debug("%s: %s memory", platform.get_device_name(), "much" if large else "little")
        # Much memory alone does not make the first generation that has it fast; the latest takes twice as much.
        if not large or platform.is_tpu() or platform.is_device_capability(_FIRST_LARGE):
            return SMALL_BATCH
        return 2 * LARGE_BATCH if platform.is_device_capability_family(_LATEST_LARGE) else LARGE_BATCH
    except Exception:
        # Any failure: a default must be found on machines without the device too.
        logger.debug("the device does not tell its memory; taking the small default", exc_info=True)
        return SMALL_BATCH
