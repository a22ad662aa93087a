"""The TPU platform: its components come from the package `tpu-inference`, which is not part of this one.

The class exists and answers for itself without that package. Whatever the package supplies is then
`MissingDependency`, and one log line says so the first time.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Final

from platform_abc.errors import ConfigError, DeviceUnavailable, MissingDependency, NotSupported
from platform_abc.types import DeviceCapability, PlatformEnum
from platforms import attention_choice, common
from platforms.native import NativePlatform
from platforms.torch_runtime import require_physical
from platforms.tpu_chips import Chip, chips

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig

_logger = logging.getLogger(__name__)

DISTRIBUTION: Final = "tpu-inference"
WORKER: Final = "tpu_inference.worker.tpu_worker.TPUWorker"
PUNICA: Final = "tpu_inference.lora.torch_punica_tpu.PunicaWrapperTPU"
BACKENDS: Final = {"PALLAS": "tpu_inference.layers.vllm.backends.flash_attn.PallasAttentionBackend"}
MLA_BACKEND: Final = "tpu_inference.layers.vllm.backends.flash_attn_mla.PallasMLAttentionBackend"

_DTYPES: Final = ("bfloat16", "float32")
_REMEDY: Final = "run it on a TPU host; `lspci -d 1ae0:` shows its chips"


class TpuPlatform(NativePlatform):
    """A Google TPU, driven by JAX through `tpu-inference`."""

    _enum = PlatformEnum.TPU
    device_name: str = "tpu"
    device_type: str = "tpu"
    dispatch_key: str = "XLA"
    ray_device_key: str = "TPU"
    device_control_env_var: str = "TPU_VISIBLE_CHIPS"
    # JAX compiles what torch hands over, so torch itself compiles nothing.
    simple_compile_backend: str = "eager"
    supported_quantization: list[str] = ["compressed-tensors", "awq", "fp8", "mxfp4"]  # noqa: RUF012

    # --- config hooks

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Set the worker class, and refuse what a TPU cannot run.

        Args:
            vllm_config: changed in place: `parallel_config.worker_cls` if it is `auto`.

        Raises:
            ConfigError: a setting that does not work here, by its field.
            MissingDependency: the worker of `tpu-inference` is needed, and the package is not installed.
        """
        common.refuse_static_graphs(cls.device_name, vllm_config)
        common.check_model_dtype(cls.device_name, vllm_config, _DTYPES)
        attention_choice.check_name(cls.device_name, BACKENDS, vllm_config.attention_config.backend)
        if vllm_config.parallel_config.worker_cls == "auto":
            cls._require_package("check_and_update_config")
            vllm_config.parallel_config.worker_cls = WORKER

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        """Refuse a dtype that a TPU does not compute in.

        Args:
            dtype: the model's dtype.

        Raises:
            ConfigError: naming the dtypes that work.
        """
        common.check_dtype(cls.device_name, dtype, _DTYPES)

    # --- pickers

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Return the dotted name of the attention backend of `tpu-inference`.

        Args:
            selected_backend: what the user asked for; None if nothing.
            attn_selector_config: the facts of the layer.
            num_heads: not read: any number of heads works.

        Raises:
            ConfigError: the backend asked for is not valid here, or the layer needs what it cannot do.
            MissingDependency: the package is not installed.
        """
        if selected_backend is not None and selected_backend.name not in BACKENDS:
            raise ConfigError(attention_choice.not_valid(cls.device_name, selected_backend.name, BACKENDS))
        if attn_selector_config.use_sparse:
            raise ConfigError(f"attention backend PALLAS on {cls.device_name} cannot do sparse attention")
        cls._require_package("get_attn_backend_cls")
        return MLA_BACKEND if attn_selector_config.use_mla else BACKENDS["PALLAS"]

    @classmethod
    def get_punica_wrapper(cls) -> str:
        """Return the dotted name of the LoRA kernel wrapper of `tpu-inference`.

        Raises:
            MissingDependency: the package is not installed.
        """
        cls._require_package("get_punica_wrapper")
        return PUNICA

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Return the dotted name of the communicator: between hosts, over host memory.

        Within a host JAX moves data between chips itself.
        """
        return common.COMMUNICATOR

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: EngineConfig) -> str:
        """Return the dotted name of the builder that gives every layer an allocation of its own.

        Args:
            vllm_config: not read.
        """
        return common.KV_CACHE_BUILDER

    # --- device

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The dtypes that a TPU computes in, the default first."""
        return common.torch_dtypes(_DTYPES)

    @classmethod
    def _chip(cls, member: str, device_id: int) -> Chip:
        """Return the chip of a visible id.

        Raises:
            DeviceUnavailable: this host has no TPU.
            IndexError: there are not so many chips.
            ValueError: the variable names a chip that there is not.
        """
        found = chips()
        if not found:
            raise DeviceUnavailable(member, cls.__name__, _REMEDY)
        physical = cls.visible_device_id_to_physical_device_id(device_id)
        require_physical(physical, len(found), cls.device_control_env_var)
        return found[physical]

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return None: a TPU has no compute capability.

        Args:
            device_id: not read.
        """
        return None

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the name of a chip, such as `TPU v6e`.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: this host has no TPU.
            IndexError: there are not so many chips.
        """
        return cls._chip("get_device_name", device_id).name

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the high-bandwidth memory of a chip in bytes.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: this host has no TPU.
            IndexError: there are not so many chips.
        """
        return cls._chip("get_device_total_memory", device_id).memory

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of tensor cores of a chip.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: this host has no TPU.
            IndexError: there are not so many chips.
        """
        return cls._chip("num_compute_units", device_id).cores

    @classmethod
    def device_count(cls) -> int:
        """Return how many chips this process sees.

        Raises:
            ValueError: the variable is no list of distinct chips.
        """
        return len(common.visible_entries(cls.device_control_env_var)) or len(chips())

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device = None) -> float:
        """Refuse: only the process that holds a chip knows how much of its memory is in use.

        Args:
            device: not read.

        Raises:
            NotSupported: always.
        """
        raise NotSupported(
            "get_current_memory_usage",
            cls.__name__,
            "ask JAX in the worker: jax.local_devices()[0].memory_stats()",
        )

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Do nothing: JAX takes the chips that `TPU_VISIBLE_CHIPS` lists, or all.

        Args:
            device: not read.
        """

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed torch's generator on the host; JAX has no generators, its worker makes keys from the seed.

        Args:
            seed: any integer that fits 64 bits.
        """
        import torch

        torch.default_generator.manual_seed(seed)

    @classmethod
    def inference_mode(cls) -> AbstractContextManager[object]:
        """Return a context in which no gradient is recorded; inference tensors cannot cross to JAX."""
        import torch

        return torch.no_grad()

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Say no: JAX moves data to the chips itself."""
        return False

    @classmethod
    def can_update_inplace(cls) -> bool:
        """Say no: XLA's arrays do not change."""
        return False

    @classmethod
    def use_all_gather(cls) -> bool:
        """Say yes: every rank runs the same program."""
        return True

    # --- internals

    @classmethod
    def _require_package(cls, member: str) -> None:
        """Refuse where `tpu-inference` is not installed, with one log line in the process.

        Raises:
            MissingDependency: it is not.
        """
        if not common.is_installed("tpu_inference"):
            _say_what_is_missing()
            raise MissingDependency(member, cls.__name__, DISTRIBUTION)


@functools.cache
def _say_what_is_missing() -> None:
    _logger.error(
        "a TPU needs the package %s, which is not installed: pip install %s", DISTRIBUTION, DISTRIBUTION
    )
