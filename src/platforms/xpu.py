"""The XPU platform: Intel devices, asked through `torch.xpu`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from platform_abc.errors import ConfigError, NotSupported
from platform_abc.types import DeviceCapability, PlatformEnum
from platforms import attention_choice, common
from platforms.native import NativePlatform
from platforms.torch_runtime import Properties, device_index, properties, require_index, runtime

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch
    from torch._C._distributed_c10d import PrefixStore, ProcessGroup

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig

REMEDY: Final = (
    "run it on a machine with an Intel device and its driver, with a torch that is built for XPU; "
    "`xpu-smi discovery` shows what the driver sees, ZE_AFFINITY_MASK may hide it"
)
"""What makes an XPU device appear."""


class XPUPlatform(NativePlatform):
    """An Intel device."""

    _enum = PlatformEnum.XPU
    device_name: str = "xpu"
    device_type: str = "xpu"
    dispatch_key: str = "XPU"
    ray_device_key: str = "GPU"
    dist_backend: str = "xccl"
    device_control_env_var: str = "ZE_AFFINITY_MASK"

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
        """Refuse a dtype that the device does not compute in, and bfloat16 on the Arc A770.

        Args:
            dtype: the model's dtype.

        Raises:
            ConfigError: naming the dtypes that work.
        """
        common.check_dtype(cls.device_name, dtype, ("bfloat16", "float16", "float32"))
        if str(dtype) == "torch.bfloat16" and "A770" in cls.get_device_name().upper():
            raise ConfigError(
                "dtype = bfloat16: the Intel Arc A770 is known to compute inaccurately in it; pass "
                "--dtype=float16"
            )

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

    # --- ids

    @classmethod
    def device_control_id_to_physical_device_id(cls, device_id: str) -> int:
        """Return the physical id that an entry of `ZE_AFFINITY_MASK` means.

        Args:
            device_id: a number, or `device.tile` for one tile of a device, which means that device.

        Raises:
            ValueError: it is neither; with the variable and its value.
        """
        device, dot, tile = device_id.strip().partition(".")
        if dot and not tile.isdecimal():
            device = device_id
        return super().device_control_id_to_physical_device_id(device)

    # --- queries

    @classmethod
    def _properties(cls, member: str, device_id: int) -> Properties:
        # The map checks the id against the variable and names it; torch has applied it already.
        cls.visible_device_id_to_physical_device_id(device_id)
        return properties("xpu", device_id, member, cls.__name__, REMEDY, cls.device_control_env_var)

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return None: Intel's version numbers mean something else than compute capabilities.

        Args:
            device_id: not read.
        """
        return None

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the product name of a device.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return cls._properties("get_device_name", device_id).name

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return the UUID of a device.

        Args:
            device_id: visible id.

        Raises:
            NotSupported: this torch does not tell.
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        found: object = getattr(cls._properties("get_device_uuid", device_id), "uuid", None)
        if not found:
            raise NotSupported("get_device_uuid", cls.__name__, "install torch 2.8 or newer")
        return str(found)

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the memory of a device in bytes.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return int(cls._properties("get_device_total_memory", device_id).total_memory)

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device = None) -> float:
        """Return the bytes in use on a device, by all processes.

        Args:
            device: the device; the current one if None.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
            ValueError: it is of another type.
        """
        index = device_index(device, "xpu")
        found = runtime("xpu", "get_current_memory_usage", cls.__name__, REMEDY)
        require_index(index, found.device_count(), cls.device_control_env_var)
        free, total = found.mem_get_info(index)
        return float(total - free)

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of compute units of a device, which Intel calls vector engines.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        count: int = getattr(cls._properties("num_compute_units", device_id), "max_compute_units")  # noqa: B009
        return count

    # --- device state

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Make a device the current one of this thread.

        Args:
            device: of the type `xpu`, with the visible id as its index.

        Raises:
            ValueError: it is of another type.
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        common.require_device_type(device, "xpu")
        found = runtime("xpu", "set_device", cls.__name__, REMEDY)
        require_index(device.index or 0, found.device_count(), cls.device_control_env_var)
        found.set_device(device)

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed the generators of all visible devices.

        Args:
            seed: any integer that fits 64 bits.
        """
        import torch

        torch.xpu.manual_seed_all(seed)

    @classmethod
    def inference_mode(cls) -> AbstractContextManager[object]:
        """Return a context in which no gradient is recorded; XPU kernels do not take inference tensors."""
        import torch

        return torch.no_grad()

    def get_global_graph_pool(self) -> object:
        """Return the memory pool that all device graphs of this process share.

        Raises:
            DeviceUnavailable: there is no device.
            NotSupported: this torch captures no graphs on XPU.
        """
        runtime("xpu", "get_global_graph_pool", type(self).__name__, REMEDY)
        return super().get_global_graph_pool()

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls,
        backend: str,
        prefix_store: PrefixStore,
        group_rank: int,
        group_size: int,
        timeout: timedelta,
    ) -> ProcessGroup:
        """Make an XCCL process group that torch's global registry does not know.

        Args:
            backend: `xccl`.
            prefix_store: where the ranks meet; the same prefix on all of them.
            group_rank: rank of this process in the group.
            group_size: number of ranks.
            timeout: longest wait of one collective.

        Raises:
            ValueError: another backend.
            DeviceUnavailable: there is no device.
        """
        from platforms.process_group import make_xccl_group

        runtime("xpu", "stateless_init_device_torch_dist_pg", cls.__name__, REMEDY)
        return make_xccl_group(cls.device_name, backend, prefix_store, group_rank, group_size, timeout)

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
        """Say yes: the matrix engines, or the vector engines in their place, take FP8 operands."""
        return True
