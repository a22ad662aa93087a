"""The vendor platform that every mutant derives from: out of tree, on the host's processor, and right."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_abc.platform import Platform
from platform_abc.types import PlatformEnum

if TYPE_CHECKING:
    import torch

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig

HERE = "tests.mutants.components"


class Good(Platform):
    """A whole platform of a vendor."""

    _enum = PlatformEnum.OOT
    device_name = "chip"
    device_type = "cpu"
    dist_backend = "gloo"
    ray_device_key = "CHIP"
    device_control_env_var = "CHIP_VISIBLE_DEVICES"
    supported_quantization: list[str] = ["chip_w8", "fp8"]

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Name the worker where the user did not."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = f"{HERE}.Worker"

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Name the one backend, and refuse latent attention."""
        cls._only_own(selected_backend)
        if attn_selector_config.use_mla:
            raise ValueError("use_mla: latent attention does not run on this chip")
        return f"{HERE}.Backend"

    @classmethod
    def _only_own(cls, selected_backend: AttentionBackendEnum | None) -> None:
        """Refuse a backend that the user asked for and that this chip does not have."""
        if selected_backend is not None and selected_backend.name not in ("TORCH_SDPA", "CUSTOM"):
            raise ValueError(f"attention backend {selected_backend.name} does not run on this chip")

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name the communicator."""
        return f"{HERE}.Communicator"

    @classmethod
    def get_kv_cache_config_builder_cls(cls, vllm_config: Any) -> str:
        """Name the planner of the KV cache."""
        return f"{HERE}.Builder"

    @classmethod
    def get_pass_manager_cls(cls) -> str:
        """Name the pass manager."""
        return f"{HERE}.Passes"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the name of the chip."""
        return "CHIP-9"

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return 8 GiB in bytes."""
        return 8 << 30

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        """Return the bytes of the host's memory that this process holds."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * resource.getpagesize())

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return the number of cores."""
        return 4

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Accept the one device."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed torch."""
        import torch

        torch.manual_seed(seed)
