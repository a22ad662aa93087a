"""What the platforms have in common whose models torch computes: this package's worker and components.

Every one of them names the same attention backend, communicator and cache layout, and takes the same
settings; they differ in their device.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from platforms import attention_choice, common
from platforms.native import NativePlatform
from platforms.triton_state import TritonKind, TritonState, triton_state

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import PrefixStore, ProcessGroup

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig


class TorchPlatform(NativePlatform, abstract=True):
    """A platform whose models torch computes, with the worker and the components of this package."""

    _attn_backends: ClassVar[Mapping[str, str]] = attention_choice.SDPA_BACKENDS
    """Name as a user asks for it -> dotted name of the attention backend, the default first."""

    # --- config hooks

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Set the worker class, and refuse what cannot run.

        Args:
            vllm_config: changed in place: `parallel_config.worker_cls` if it is `auto`.

        Raises:
            ConfigError: a setting that does not work here, by its field.
        """
        common.check_config(cls.device_name, vllm_config, cls._attn_backends)

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse a dtype that is none of `supported_dtypes`.

        Args:
            dtype: the model's dtype.

        Raises:
            ConfigError: naming the dtypes that work.
        """
        common.check_dtype(cls.device_name, dtype, cls._dtype_names())

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
        """Return the dotted name of the attention backend, which works on a paged cache.

        Triton's where the platform has it and Triton can run, else torch's SDPA.

        Args:
            selected_backend: what the user asked for; None if nothing.
            attn_selector_config: the facts of the layer.
            num_heads: not read: any number of heads works.

        Raises:
            ConfigError: the backend asked for is not valid here, or the layer needs what it cannot do.
        """
        return attention_choice.choose(
            cls.device_name,
            cls._attn_backends,
            selected_backend,
            attn_selector_config,
            lambda: "" if cls._triton().usable else cls._triton().why,
        )

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Return the dotted name of the LoRA wrapper: plain torch, or Triton where its kernels run."""
        return common.TRITON_LORA if cls._prefers_triton() else common.TORCH_LORA

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

    # --- kernels

    @classmethod
    def import_ir_kernels(cls) -> None:
        """Register the implementations of IR ops in Triton, as `triton`."""
        from platforms.components import ir_kernels

        ir_kernels.register()

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """Replace the core kernels by functions of torch where Triton cannot run on the device."""
        from platforms.components import core_kernels

        if not cls._triton().usable:
            core_kernels.use_torch()

    @classmethod
    def _triton_kind(cls) -> TritonKind:
        """Return whose kernels run here; the host's, which is the default, are the interpreter's alone."""
        return "cpu"

    @classmethod
    def _triton(cls) -> TritonState:
        return triton_state(cls._triton_kind())

    @classmethod
    def _prefers_triton(cls) -> bool:
        """Say whether Triton's components are picked; on the host its interpreter would only be slow."""
        return cls._triton_kind() != "cpu" and cls._triton().usable

    # --- device

    @classmethod
    def _require_device(cls, member: str) -> None:
        """Refuse where there is no device; the host, which is the default, is always there.

        Args:
            member: the hook that asks, for the error.

        Raises:
            DeviceUnavailable: there is none.
        """

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The dtypes that the first device computes in, the default first."""
        return common.torch_dtypes(self._dtype_names())

    @classmethod
    def _dtype_names(cls) -> tuple[str, ...]:
        return ("bfloat16", "float16", "float32")

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls,
        backend: str,
        prefix_store: PrefixStore,
        group_rank: int,
        group_size: int,
        timeout: timedelta,
    ) -> ProcessGroup:
        """Make a process group of `dist_backend` that torch's global registry does not know.

        Args:
            backend: the same as `dist_backend`.
            prefix_store: where the ranks meet; the same prefix on all of them.
            group_rank: rank of this process in the group.
            group_size: number of ranks.
            timeout: longest wait of one collective.

        Raises:
            ValueError: another backend, or a torch without it.
            DeviceUnavailable: there is no device.
        """
        from platforms.process_group import make_group

        cls._require_device("stateless_init_device_torch_dist_pg")
        if backend != cls.dist_backend:
            raise ValueError(
                f"expected the backend {cls.dist_backend!r} on {cls.device_name}, got {backend!r}"
            )
        return make_group(cls.device_name, backend, prefix_store, group_rank, group_size, timeout)

    # --- capabilities

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Say yes: each layer's cache has a shape of its own."""
        return True
