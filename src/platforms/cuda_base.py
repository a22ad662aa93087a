"""What every CUDA platform has in common: identity, dtypes and capabilities.

The queries of a device come from the subclasses, through NVML or through torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from platform_abc.types import PlatformEnum
from platforms import common
from platforms.accelerator import AcceleratorPlatform

if TYPE_CHECKING:
    import torch

REMEDY: Final = (
    "run it on a machine with an NVIDIA device and driver, with a torch that is built for CUDA; "
    "`nvidia-smi` shows what the driver sees, CUDA_VISIBLE_DEVICES may hide it"
)
"""What makes a CUDA device appear."""


class CudaPlatformBase(AcceleratorPlatform, abstract=True):
    """An NVIDIA device, apart from how it is asked about itself."""

    _enum = PlatformEnum.CUDA
    device_name: str = "cuda"
    device_type: str = "cuda"
    dispatch_key: str = "CUDA"
    ray_device_key: str = "GPU"
    dist_backend: str = "nccl"
    device_control_env_var: str = "CUDA_VISIBLE_DEVICES"
    ray_noset_device_env_vars: list[str] = ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]  # noqa: RUF012

    _kind = "cuda"
    _remedy = REMEDY

    # --- config hooks

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse a dtype that the first device cannot compute in: bfloat16 needs capability 8.0.

        Args:
            dtype: the model's dtype.

        Raises:
            ConfigError: naming the device's capability and the dtypes that work.
        """
        capability = cls.get_device_capability()
        named = "" if capability is None else f" with compute capability {capability.as_version_str()}"
        common.check_dtype(f"{cls.device_name}{named}", dtype, cls._dtype_names())

    # --- pickers

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Return the dotted name of the wrapper that captures graphs."""
        return common.CUDA_GRAPHS

    # --- device

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Make a device the current one of this thread, and create its context.

        Args:
            device: of the type `cuda`, with the visible id as its index.
        """
        super().set_device(device)
        import torch

        # torch alone only notes the device; the allocation binds this thread to it.
        torch.zeros(1, device=device)

    @classmethod
    def _dtype_names(cls) -> tuple[str, ...]:
        capability = cls.get_device_capability()
        if capability is None or capability >= (8, 0):
            return ("bfloat16", "float16", "float32")
        return ("float16", "float32") if capability >= (6, 0) else ("float32",)

    @classmethod
    def get_cuda_runtime_major(cls) -> int:
        """Return the major version of the CUDA that torch is built for; 0 if for none."""
        import torch

        major = (torch.version.cuda or "").partition(".")[0]
        return int(major) if major.isdecimal() else 0

    # --- capabilities

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes."""
        return True

    @classmethod
    def supports_fp8(cls) -> bool:
        """Say whether the first device computes in FP8, from capability 8.9 on."""
        return cls.has_device_capability((8, 9))

    @classmethod
    def is_arch_support_pdl(cls) -> bool:
        """Say whether a kernel can start before the one it depends on has ended, from capability 9.0 on."""
        return cls.has_device_capability((9, 0))

    @classmethod
    def support_deep_gemm(cls) -> bool:
        """Say whether DeepGEMM has kernels for the first device: capability 9.0, and 10.x and 12.x."""
        return cls.is_device_capability((9, 0)) or any(
            cls.is_device_capability_family(family) for family in (100, 120)
        )
