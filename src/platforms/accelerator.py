"""What the platforms of accelerators have in common: torch starts the device, and can be asked about it.

A subclass that knows a library which answers without a device context overrides the questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from platforms import attention_choice, common
from platforms.torch_platform import TorchPlatform
from platforms.torch_runtime import (
    Kind,
    Properties,
    Runtime,
    device_index,
    properties,
    require_index,
    runtime,
    seed_all,
)

if TYPE_CHECKING:
    import torch

    from platform_abc.config import EngineConfig, IrOpPriorityConfig
    from platforms.triton_state import TritonKind


class AcceleratorPlatform(TorchPlatform, abstract=True):
    """A device of its own beside the host, which `torch.<device_type>` drives."""

    _kind: ClassVar[Kind]
    """Whose device it is, as torch tells them apart."""

    _attn_backends = attention_choice.TRITON_BACKENDS

    _remedy: ClassVar[str]
    """What makes a device appear, for errors."""

    # --- config hooks

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Set the worker class, keep images whole for models that need it, refuse what cannot run.

        Graphs are refused where the platform does not capture them.

        Args:
            vllm_config: changed in place: `parallel_config.worker_cls` if it is `auto`, and
                `scheduler_config.disable_chunked_mm_input`.

        Raises:
            ConfigError: a setting that does not work here, by its field.
        """
        super().check_and_update_config(vllm_config)
        if not cls.support_static_graph_mode():
            common.refuse_static_graphs(cls.device_name, vllm_config)
        common.forbid_chunked_images(vllm_config)

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: EngineConfig) -> IrOpPriorityConfig:
        """Return Triton before the native implementation for the ops that have one; it declines where it cannot run.

        Args:
            vllm_config: not read.
        """
        from platform_abc.config import IrOpPriorityConfig

        return IrOpPriorityConfig.with_default(["native"], rms_norm=["triton", "native"])

    # --- asking torch

    @classmethod
    def _triton_kind(cls) -> TritonKind:
        return cls._kind

    @classmethod
    def _runtime(cls, member: str) -> Runtime:
        """Return the part of torch that drives the device.

        Raises:
            DeviceUnavailable: there is no device.
        """
        return runtime(cls._kind, member, cls.__name__, cls._remedy)

    @classmethod
    def _require_device(cls, member: str) -> None:
        cls._runtime(member)

    @classmethod
    def _properties(cls, member: str, device_id: int) -> Properties:
        """Return what torch says of a visible device.

        Raises:
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        return properties(cls._kind, device_id, member, cls.__name__, cls._remedy, *cls._variables())

    @classmethod
    def _variables(cls) -> tuple[str, ...]:
        """Return the names of the variables that may hide devices."""
        return (cls.device_control_env_var,)

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
        index = device_index(device, cls._kind)
        found = cls._runtime("get_current_memory_usage")
        require_index(index, found.device_count(), *cls._variables())
        free, total = found.mem_get_info(index)
        return float(total - free)

    # --- device state

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Make a device the current one of this thread.

        Args:
            device: of the platform's device type, with the visible id as its index.

        Raises:
            ValueError: it is of another type.
            DeviceUnavailable: there is no device.
            IndexError: there are not so many devices.
        """
        common.require_device_type(device, cls.device_type)
        found = cls._runtime("set_device")
        require_index(device.index or 0, found.device_count(), *cls._variables())
        found.set_device(device)

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed the generators of all visible devices; those that are not started yet are seeded then.

        Args:
            seed: any integer that fits 64 bits.
        """
        seed_all(cls._kind, seed)

    def get_global_graph_pool(self) -> object:
        """Return the memory pool that all device graphs of this process share.

        Raises:
            DeviceUnavailable: there is no device.
            NotSupported: this torch captures no graphs on it.
        """
        self._require_device("get_global_graph_pool")
        return super().get_global_graph_pool()

    # --- capabilities

    def is_sleep_mode_available(self) -> bool:
        """Say no: this package has no allocator that gives memory back while the engine sleeps."""
        return False
