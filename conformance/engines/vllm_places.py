"""Where every plain run of vLLM asks its platform: a small decoder, one device, no adapter, no graph.

Recorded from a traced run that built a config, loaded a tiny model and generated eight tokens. A
place says nothing about a version by itself: only a use that the installed source has there counts,
so a place that moved is silently no longer known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COMMON: Final[Mapping[str, tuple[str, ...]]] = {
    "_aiter_ops.py": (
        "",
        "_maybe_promote_torch_hip_runtime",
        "is_aiter_found_and_supported",
        "is_aiter_found_and_supported_on_rdna4",
        "register_ops_once",
    ),
    "_custom_ops.py": ("",),
    "config/compilation.py": ("__post_init__",),
    "config/device.py": ("__post_init__",),
    "config/kernel.py": ("_iter_op_priorities", "set_platform_defaults"),
    "config/model.py": ("_get_head_dtype", "head_dtype"),
    "config/parallel.py": ("_verify_args",),
    "config/vllm.py": (
        "__post_init__",
        "default_breakable_cudagraph_architectures",
        "enable_allreduce_rms_fusion",
    ),
    "distributed/parallel_state.py": ("__init__",),
    "engine/arg_utils.py": (
        "_set_default_chunked_prefill_and_prefix_caching_args",
        "create_engine_config",
        "get_batch_defaults",
    ),
    "forward_context.py": ("set_forward_context",),
    "kernels/aiter_ops.py": ("",),
    "kernels/oink_ops.py": ("",),
    "kernels/vllm_c.py": ("",),
    "logger.py": ("_log_platform_warnings",),
    "model_executor/custom_op.py": ("dispatch_forward",),
    "model_executor/kernels/linear/mxfp8/rocm_native.py": ("",),
    "model_executor/kernels/linear/scaled_mm/rocm.py": ("",),
    "model_executor/layers/activation.py": ("__init__", "forward_cpu"),
    "model_executor/layers/attention/attention.py": ("__init__",),
    "model_executor/layers/attention/mla_attention.py": ("",),
    "model_executor/layers/fused_moe/all2all_utils.py": ("",),
    "model_executor/layers/fused_moe/router/base_router.py": ("",),
    "model_executor/layers/fused_moe/router/dsv4_topk.py": ("",),
    "model_executor/layers/fused_moe/router/grouped_topk_router.py": ("",),
    "model_executor/layers/fused_moe/utils.py": ("",),
    "model_executor/layers/fusion/fused_act_quant.py": ("",),
    "model_executor/layers/linear.py": ("process_weights_after_loading",),
    "model_executor/layers/logits_processor.py": ("__init__",),
    "model_executor/layers/mamba/ops/causal_conv1d.py": ("",),
    "model_executor/layers/mamba/ops/mamba_ssm.py": ("",),
    "model_executor/layers/mamba/ops/ssd_chunk_scan.py": ("_drop_racy_wgmma_configs",),
    "model_executor/layers/mamba/ops/ssd_combined.py": ("",),
    "model_executor/layers/quantization/input_quant_fp8.py": ("",),
    "model_executor/layers/quantization/utils/int8_utils.py": ("",),
    "model_executor/layers/quantization/utils/quant_utils.py": ("", "get_fp8_min_max"),
    "model_executor/layers/quantization/utils/w8a8_utils.py": (
        "cutlass_block_fp8_supported",
        "cutlass_fp8_supported",
    ),
    "model_executor/layers/rotary_embedding/common.py": ("__init__",),
    "model_executor/layers/sparse_attn_indexer.py": ("",),
    "model_executor/layers/utils.py": ("dispatch_cpu_unquantized_gemm", "dispatch_unquantized_gemm"),
    "model_executor/layers/vocab_parallel_embedding.py": ("", "process_weights_after_loading"),
    "model_executor/model_loader/base_loader.py": ("load_model",),
    "model_executor/model_loader/weight_utils.py": ("initialize_single_dummy_weight",),
    "model_executor/models/registry.py": ("_try_load_model_cls",),
    "model_executor/parameter.py": ("__init__",),
    "model_executor/utils.py": ("set_weight_attrs",),
    "models/deepseek_v4/__init__.py": ("",),
    "models/deepseek_v4/common/ops/fused_compress_quant_cache.py": ("",),
    "triton_utils/importing.py": ("",),
    "utils/deep_gemm.py": ("",),
    "utils/gpu_sync_debug.py": ("",),
    "utils/platform_utils.py": ("is_pin_memory_available",),
    "utils/torch_utils.py": ("direct_register_custom_op", "set_random_seed"),
    "v1/attention/backends/cpu_attn.py": ("_get_attn_isa",),
    "v1/attention/backends/fa_utils.py": ("",),
    "v1/attention/ops/flashmla.py": ("",),
    "v1/attention/ops/rocm_aiter_mla_sparse.py": ("",),
    "v1/attention/ops/triton_unified_attention.py": ("",),
    "v1/attention/selector.py": ("_cached_get_attn_backend",),
    "v1/core/single_type_kv_cache_manager.py": ("register_all_kvcache_specs",),
    "v1/engine/input_processor.py": ("process_inputs",),
    "v1/executor/multiproc_executor.py": ("__init__",),
    "v1/executor/uniproc_executor.py": ("_init_executor",),
    "v1/sample/logits_processor/__init__.py": ("_load_custom_logitsprocs",),
    "v1/sample/ops/logprobs.py": ("",),
    "v1/sample/ops/topk_topp_sampler.py": ("", "__init__"),
    "v1/spec_decode/utils.py": ("",),
    "v1/worker/cpu_worker.py": ("init_device",),
    "v1/worker/gpu_worker.py": (
        "_maybe_get_memory_pool_context",
        "_scoped_allocator_max_split",
        "initialize_from_config",
    ),
    "v1/worker/utils.py": ("allocate_kv_cache",),
    "v1/worker/worker_base.py": ("init_worker",),
}
"""By file below the package, the functions that the run passes; the empty name is the module's body."""


def is_common(site_file: str, function: str) -> bool:
    """Say whether a place, `vllm/pkg/mod.py` and `Class.method`, is on the path of every plain run."""
    names = COMMON.get(site_file.removeprefix("vllm/"), ())
    return function.rpartition(".")[2] in names
