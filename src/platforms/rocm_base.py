"""What the ROCm platform is apart from how a device is asked: identity and config hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from platform_abc.types import PlatformEnum
from platforms import common, rocm_ids
from platforms.accelerator import AcceleratorPlatform

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from platform_abc.config import EngineConfig

REMEDY: Final = (
    "run it on a machine with an AMD device and the amdgpu driver, with amdsmi and a torch that is built for "
    "ROCm; `amd-smi list` shows what the driver sees"
)
"""What makes a ROCm device appear."""

DEFAULT_OPS: Final = ("sparse_attn_indexer",)
"""Custom ops that ROCm has kernels of its own for."""

AITER_OPS: Final = ("rms_norm", "quant_fp8", "grouped_topk")
"""Custom ops that the kernel library AITER makes faster than what is compiled."""


class RocmPlatformBase(AcceleratorPlatform, abstract=True):
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

    _kind = "hip"
    _remedy = REMEDY

    @classmethod
    def _variables(cls) -> tuple[str, ...]:
        return rocm_ids.VARIABLES

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

    # --- pickers

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Return the dotted name of the wrapper that captures graphs."""
        return common.CUDA_GRAPHS

    # --- capabilities

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True
