"""What the ROCm platform is apart from how a device is asked: identity, config hooks and pickers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from platform_abc.types import PlatformEnum
from platforms import attention_choice, common, rocm_ids
from platforms.native import NativePlatform

if TYPE_CHECKING:
    from argparse import ArgumentParser

    import torch

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig

DEFAULT_OPS: Final = ("sparse_attn_indexer",)
"""Custom ops that ROCm has kernels of its own for."""

AITER_OPS: Final = ("rms_norm", "quant_fp8", "grouped_topk")
"""Custom ops that the kernel library AITER makes faster than what is compiled."""


class RocmPlatformBase(NativePlatform, abstract=True):
    """An AMD device, apart from how it is asked about itself; its torch answers to the name `cuda`."""

    _enum = PlatformEnum.ROCM
    device_name: str = "rocm"
    device_type: str = "cuda"
    dispatch_key: str = "CUDA"
    ray_device_key: str = "GPU"
    dist_backend: str = "nccl"
    device_control_env_var: str = rocm_ids.CUDA
    ray_noset_device_env_vars: list[str] = [  # noqa: RUF012
        "RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_ROCR_VISIBLE_DEVICES",
    ]
    supported_quantization: list[str] = [  # noqa: RUF012
        "awq",
        "gptq",
        "fp8",
        "compressed-tensors",
        "fbgemm_fp8",
        "inc",
        "quark",
        "mxfp4",
        "mxfp8",
        "torchao",
        "modelopt",
    ]

    # --- config hooks

    @classmethod
    def pre_register_and_update(cls, parser: ArgumentParser | None = None) -> None:
        """Refuse device variables that contradict each other, before anything reads them.

        Args:
            parser: not read.

        Raises:
            ValueError: naming both variables and their values.
        """
        rocm_ids.variable()

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: EngineConfig) -> None:
        """Turn on the custom ops that ROCm has kernels for, and those of AITER where it is installed.

        What the user said of an op, or of all of them, stays; a second call changes nothing.

        Args:
            vllm_config: changed in place: `compilation_config.custom_ops`.
        """
        ops = vllm_config.compilation_config.custom_ops
        if "all" in ops or "none" in ops:
            return
        wanted = DEFAULT_OPS + (AITER_OPS if common.is_installed("aiter") else ())
        # A new list is assigned, so that the config checks it.
        vllm_config.compilation_config.custom_ops = ops + [
            f"+{op}" for op in wanted if f"+{op}" not in ops and f"-{op}" not in ops
        ]

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Set the worker class, keep images whole for models that need it, refuse what cannot run.

        Args:
            vllm_config: changed in place: `parallel_config.worker_cls` if it is `auto`, and
                `scheduler_config.disable_chunked_mm_input`.

        Raises:
            ConfigError: a setting that does not work here, by its field.
        """
        common.check_config(cls.device_name, vllm_config)
        common.forbid_chunked_images(vllm_config)

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse a dtype that AMD devices do not compute in.

        Args:
            dtype: the model's dtype.

        Raises:
            ConfigError: naming the dtypes that work.
        """
        common.check_dtype(cls.device_name, dtype, ("bfloat16", "float16", "float32"))

    @classmethod
    def check_runner_kv_caches_multi_layer(cls) -> None:
        """Accept models with several attention layers of one index: caches are kept by layer name."""

    # --- pickers

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Return the dotted name of the attention backend, torch's SDPA over a paged cache.

        Args:
            selected_backend: what the user asked for; None if nothing.
            attn_selector_config: the facts of the layer.
            num_heads: not read: any number of heads works.

        Raises:
            ConfigError: the backend asked for is not valid here, or the layer needs what it cannot do.
        """
        return attention_choice.choose(
            cls.device_name, attention_choice.SDPA_BACKENDS, selected_backend, attn_selector_config
        )

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Return the dotted name of the communicator over `torch.distributed`."""
        return common.COMMUNICATOR

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: EngineConfig) -> str:
        """Return the dotted name of the builder that gives every layer an allocation of its own.

        Args:
            vllm_config: not read.
        """
        return common.KV_CACHE_BUILDER

    @classmethod
    def opaque_attention_op(cls) -> bool:
        """Say yes: the backend loops over requests, which `torch.compile` should not trace."""
        return True
