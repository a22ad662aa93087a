"""The platform: three attributes, three methods, and what this device can answer beyond the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dummy_platform import devices
from platform_abc import Platform
from platform_abc.errors import ConfigError, DeviceUnavailable
from platform_abc.types import PlatformEnum

if TYPE_CHECKING:
    import torch

    from platform_abc.config import AttentionBackendEnum, AttentionSelectorConfig, EngineConfig

# A dotted name is no import: the engine imports the class where it builds the component.
WORKER = "dummy_platform.worker.DummyWorker"
ATTENTION = "dummy_platform.attention.DummyAttentionBackend"


class DummyPlatform(Platform["EngineConfig", "AttentionSelectorConfig", "AttentionBackendEnum | None"]):
    """A simulated accelerator; its memory is the host's."""

    _enum = PlatformEnum.OOT
    device_name: str = "dummy"
    device_type: str = "privateuseone"
    dispatch_key: str = "PrivateUse1"
    device_control_env_var: str = "DUMMY_VISIBLE_DEVICES"
    ray_device_key: str = "DUMMY"
    dist_backend: str = "gloo"

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Choose the worker and refuse what the device cannot do; a second call changes nothing more.

        Raises:
            ConfigError: the config asks for static graphs, which this device does not have.
        """
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = WORKER
        mode = vllm_config.compilation_config.cudagraph_mode
        if mode.name != "NONE":
            raise ConfigError(
                f"compilation_config.cudagraph_mode = {mode.name}: expected NONE, the dummy device "
                "captures no graphs"
            )

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: AttentionBackendEnum | None,
        attn_selector_config: AttentionSelectorConfig,
        num_heads: int | None = None,
    ) -> str:
        """Return the only backend there is, or say why it cannot do what is asked.

        Raises:
            ConfigError: another backend was asked for, or the layer needs what this one does not have.
        """
        if selected_backend is not None and selected_backend.name != "CUSTOM":
            raise ConfigError(
                f"attention backend {selected_backend.name}: the dummy device has only its own, CUSTOM"
            )
        wanted = attn_selector_config
        missing = [
            name
            for name, asked in (
                ("latent attention", wanted.use_mla),
                ("sparse attention", wanted.use_sparse),
                ("sliding windows", wanted.has_sliding_window),
            )
            if asked
        ]
        if missing:
            raise ConfigError(f"the dummy device's attention does not do {', '.join(missing)}")
        return ATTENTION

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the model's name.

        Raises:
            DeviceUnavailable: there is no such device.
        """
        if not 0 <= device_id < devices.count():
            raise DeviceUnavailable(
                "get_device_name", cls.device_name, f"let {devices.VARIABLE} be more than {device_id}"
            )
        return "Dummy Accelerator 1"

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the device's memory in bytes."""
        return devices.MEMORY_BYTES

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return 1: the simulation computes one thing at a time."""
        return 1

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Say no: host memory *is* the device's memory."""
        return False

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Make a device the current one of this process."""
        from dummy_platform import runtime

        runtime.set_device(device)

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed the generator; the device shares the host's."""
        import torch

        torch.manual_seed(seed)

    @classmethod
    def import_kernels(cls) -> None:
        """Register the custom ops; `register_ops` may have done so before."""
        from dummy_platform import ops

        ops.register()
