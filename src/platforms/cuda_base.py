"""What every CUDA platform has in common: identity, config hooks, pickers and capabilities.

The queries of a device come from the subclasses, through NVML or through torch.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from platform_abc.types import PlatformEnum
from platforms import attention_choice, common
from platforms.native import NativePlatform
from platforms.torch_runtime import require_index, runtime

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import PrefixStore, ProcessGroup

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig

REMEDY: Final = (
    "run it on a machine with an NVIDIA device and driver, with a torch that is built for CUDA; "
    "`nvidia-smi` shows what the driver sees, CUDA_VISIBLE_DEVICES may hide it"
)
"""What makes a CUDA device appear."""


class CudaPlatformBase(NativePlatform, abstract=True):
    """An NVIDIA device, apart from how it is asked about itself."""

    _enum = PlatformEnum.CUDA
    device_name: str = "cuda"
    device_type: str = "cuda"
    dispatch_key: str = "CUDA"
    ray_device_key: str = "GPU"
    dist_backend: str = "nccl"
    device_control_env_var: str = "CUDA_VISIBLE_DEVICES"
    ray_noset_device_env_vars: list[str] = ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]  # noqa: RUF012

    # --- config hooks

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
        """Refuse a dtype that the first device cannot compute in: bfloat16 needs capability 8.0.

        Args:
            dtype: the model's dtype.

        Raises:
            ConfigError: naming the device's capability and the dtypes that work.
        """
        capability = cls.get_device_capability()
        named = "" if capability is None else f" with compute capability {capability.as_version_str()}"
        common.check_dtype(f"{cls.device_name}{named}", dtype, cls._dtype_names())

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

    # --- device

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The dtypes that the first device computes in, the default first; all while none is known."""
        return common.torch_dtypes(self._dtype_names())

    @classmethod
    def _dtype_names(cls) -> tuple[str, ...]:
        capability = cls.get_device_capability()
        if capability is None or capability >= (8, 0):
            return ("bfloat16", "float16", "float32")
        return ("float16", "float32") if capability >= (6, 0) else ("float32",)

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Make a device the current one of this thread, and create its context.

        Args:
            device: of the type `cuda`, with the visible id as its index.

        Raises:
            ValueError: it is of another type.
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        common.require_device_type(device, "cuda")
        import torch

        found = runtime("cuda", "set_device", cls.__name__, REMEDY)
        require_index(device.index or 0, found.device_count(), cls.device_control_env_var)
        found.set_device(device)
        # torch alone only notes the device; the allocation binds this thread to it.
        torch.zeros(1, device=device)

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed the generators of all visible devices; those that are not started yet are seeded then.

        Args:
            seed: any integer that fits 64 bits.
        """
        import torch

        torch.cuda.manual_seed_all(seed)

    def get_global_graph_pool(self) -> object:
        """Return the memory pool that all device graphs of this process share.

        Raises:
            DeviceUnavailable: there is no device.
        """
        runtime("cuda", "get_global_graph_pool", type(self).__name__, REMEDY)
        return super().get_global_graph_pool()

    @classmethod
    def get_cuda_runtime_major(cls) -> int:
        """Return the major version of the CUDA that torch is built for; 0 if for none."""
        import torch

        major = (torch.version.cuda or "").partition(".")[0]
        return int(major) if major.isdecimal() else 0

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls,
        backend: str,
        prefix_store: PrefixStore,
        group_rank: int,
        group_size: int,
        timeout: timedelta,
    ) -> ProcessGroup:
        """Make a NCCL process group that torch's global registry does not know.

        Args:
            backend: `nccl`.
            prefix_store: where the ranks meet; the same prefix on all of them.
            group_rank: rank of this process in the group.
            group_size: number of ranks.
            timeout: longest wait of one collective.

        Raises:
            ValueError: another backend.
            DeviceUnavailable: there is no device.
        """
        from platforms.process_group import make_nccl_group

        member = "stateless_init_device_torch_dist_pg"
        runtime("cuda", member, cls.__name__, REMEDY)
        return make_nccl_group(cls.device_name, backend, prefix_store, group_rank, group_size, timeout)

    # --- capabilities

    def is_sleep_mode_available(self) -> bool:
        """Say no: this package has no allocator that gives memory back while the engine sleeps."""
        return False

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Say yes: each layer's cache has a shape of its own."""
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
