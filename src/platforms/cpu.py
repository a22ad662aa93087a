"""The CPU platform: the host's processor and memory as the device.

Memory, processors and NUMA nodes come from the operating system. `CPU_VISIBLE_MEMORY_NODES` may list
NUMA nodes: each is then a device of its own. While it is unset or empty, the one device is the whole
host, which all ranks share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from platform_abc.errors import ConfigError, DeviceUnavailable, NotSupported
from platform_abc.types import CpuArchEnum, DeviceCapability, PlatformEnum
from platforms import common
from platforms.host_memory import MemoryState, host_memory, node_memory
from platforms.host_processor import (
    machine_id,
    macos_has_bfloat16,
    numa_nodes,
    one_cpu_per_core,
    processor_name,
    usable_cpus,
)
from platforms.torch_platform import TorchPlatform

if TYPE_CHECKING:
    import torch

    from platform_abc.config import EngineConfig

_UUID_SPACE: Final = "6f2a3c62-93a3-5d0e-8a1b-4f2f6f7f0c11"
"""Keeps the machine's own identifier out of what this platform tells."""

_NO_POOL: Final = ("cpu", "no memory")
"""The pool of graphs on a device that captures none; every call answers the same."""

_DTYPES: Final = {
    CpuArchEnum.X86: ("bfloat16", "float16", "float32"),
    CpuArchEnum.ARM: ("bfloat16", "float16", "float32"),
    CpuArchEnum.RISCV: ("bfloat16", "float16", "float32"),
    # POWER and Z convert bfloat16 in their vector units; float16 is the slow one on the first and has
    # no conversion at all on the second.
    CpuArchEnum.POWERPC: ("bfloat16", "float32", "float16"),
    CpuArchEnum.S390X: ("bfloat16", "float32"),
}
"""Dtypes by architecture, the default first; any other architecture computes in float32."""


class CpuPlatform(TorchPlatform):
    """The host's processor: torch's own kernels, memory of the operating system, gloo between ranks."""

    _enum = PlatformEnum.CPU
    device_name: str = "cpu"
    device_type: str = "cpu"
    dispatch_key: str = "CPU"
    ray_device_key: str = "CPU"
    dist_backend: str = "gloo"
    device_control_env_var: str = "CPU_VISIBLE_MEMORY_NODES"
    supported_quantization: list[str] = ["int8_weight_only"]  # noqa: RUF012

    # --- config hooks

    @classmethod
    def check_and_update_config(cls, vllm_config: EngineConfig) -> None:
        """Set the worker class, and refuse what the CPU cannot run.

        Args:
            vllm_config: changed in place: `parallel_config.worker_cls` if it is `auto`, and
                `scheduler_config.async_scheduling` if nobody decided it.

        Raises:
            ConfigError: a setting that does not work here, by its field.
        """
        super().check_and_update_config(vllm_config)
        common.check_model_dtype(cls.device_name, vllm_config, cls._dtype_names())
        if vllm_config.parallel_config.enable_dbo:
            raise ConfigError(
                "parallel_config.enable_dbo = True: expected False on cpu, which has one stream of work "
                "and nothing to overlap"
            )
        # A step runs on the thread that asks for it, so there is nothing to schedule ahead.
        if vllm_config.scheduler_config.async_scheduling is None:
            vllm_config.scheduler_config.async_scheduling = False

    # --- pickers

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        """Return the dotted name of a wrapper that runs every step as it is."""
        return common.EAGER_GRAPHS

    # --- device

    @classmethod
    def _dtype_names(cls) -> tuple[str, ...]:
        architecture = cls.get_cpu_architecture()
        if architecture is CpuArchEnum.ARM and common.on_macos() and not macos_has_bfloat16():
            return ("float16", "float32")
        return _DTYPES.get(architecture, ("float32",))

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        """Return None: a processor has no compute capability.

        Args:
            device_id: not read.
        """
        return None

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return the processor's marketing name, else the architecture's.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: the memory node that the id stands for does not exist.
        """
        cls._node(device_id)
        return processor_name()

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """Return an identifier that stays the same as long as this operating system is installed.

        Args:
            device_id: visible id.

        Returns:
            `CPU-` and a UUID, which does not reveal the machine's own identifier.

        Raises:
            NotSupported: this system has no identifier, as in most containers.
        """
        identifier = machine_id()
        if identifier is None:
            raise NotSupported(
                "get_device_uuid",
                cls.__name__,
                "give the system a machine id: run `systemd-machine-id-setup`, or mount the host's "
                "/etc/machine-id into the container",
            )
        import uuid

        node = cls._node(device_id)
        named = identifier + ("" if node is None else f"/node{node}")
        return f"CPU-{uuid.uuid5(uuid.UUID(_UUID_SPACE), named)}"

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """Return the bytes that this process may use: of the machine, its control group, or one node.

        Args:
            device_id: visible id.

        Raises:
            DeviceUnavailable: the operating system does not say, or the memory node does not exist.
        """
        return cls._memory(device_id, "get_device_total_memory").total

    @classmethod
    def get_current_memory_usage(cls, device: torch.types.Device = None) -> float:
        """Return the bytes in use on the device, by all processes that share it.

        Memory that the system could reclaim, such as file cache, does not count as used.

        Args:
            device: a torch device, whose index is a visible id; None for the first.

        Raises:
            DeviceUnavailable: the operating system does not say.
            ValueError: the device is of another type.
        """
        state = cls._memory(common.device_index(device, "cpu") or 0, "get_current_memory_usage")
        return float(state.used)

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """Refuse: a processor is not on the PCI bus.

        Raises:
            NotSupported: always.
        """
        raise NotSupported(
            "get_all_gpu_pci_bus_ids",
            cls.__name__,
            "ask the platform of an accelerator: a processor has no PCI bus id",
        )

    @classmethod
    def mem_get_info(cls, device: torch.types.Device = None) -> tuple[int, int]:
        """Return `(free, total)` in bytes, as `torch.cuda.mem_get_info` does; `torch.cpu` has no such function.

        Args:
            device: a torch device, whose index is a visible id; None for the first.

        Raises:
            DeviceUnavailable: the operating system does not say.
            ValueError: the device is of another type.
        """
        state = cls._memory(common.device_index(device, "cpu") or 0, "mem_get_info")
        return state.available, state.total

    @classmethod
    def device_count(cls) -> int:
        """Return how many devices there are: the memory nodes that the variable lists, else one.

        Raises:
            ValueError: the variable is no list of distinct nodes.
        """
        return max(1, len(common.visible_entries(cls.device_control_env_var)))

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """Return how many logical processors this process may run on, by its affinity mask.

        Args:
            device_id: not read: the mask holds for the process.
        """
        return len(usable_cpus())

    @classmethod
    def discover_numa_topology(cls) -> list[list[int]]:
        """Return for each NUMA node one logical processor of each physical core.

        Nodes without processors are left out. On x86 the highest-numbered thread of each core is taken,
        which is the one that systems leave idle longest.

        Returns:
            Ascending numbers, by node; empty where the system has no NUMA nodes.
        """
        highest = cls.get_cpu_architecture() is CpuArchEnum.X86
        cores = (one_cpu_per_core(node, highest=highest) for node in numa_nodes())
        return [node for node in cores if node]

    @classmethod
    def get_all_device_numa_nodes(cls) -> list[int] | None:
        """Return the memory nodes that the variable lists, by visible id; None while it lists none."""
        nodes = [
            cls._node(device) for device in range(len(common.visible_entries(cls.device_control_env_var)))
        ]
        return [node or 0 for node in nodes] or None

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """Accept the CPU as the current device.

        Args:
            device: a device of the type `cpu`.

        Raises:
            ValueError: it is of another type.
        """
        common.require_device_type(device, "cpu")

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seed torch's generator of the CPU.

        Args:
            seed: any integer that fits 64 bits.
        """
        import torch

        torch.default_generator.manual_seed(seed)

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        """Say no: pinning serves copies to another device."""
        return False

    def get_global_graph_pool(self) -> object:
        """Return what stands for the pool that graphs share: nothing is captured on the CPU, so there is no memory in it."""
        return _NO_POOL

    # --- capabilities

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        """Say yes: steps that are to be captured run through a wrapper, which on the CPU passes them on."""
        return True

    # --- internals

    @classmethod
    def _node(cls, device_id: int) -> int | None:
        """Return the memory node of a visible id; None where the device is the whole host.

        Raises:
            DeviceUnavailable: the node does not exist.
        """
        if not common.visible_entries(cls.device_control_env_var):
            common.require_id(device_id)
            return None
        node = cls.visible_device_id_to_physical_device_id(device_id)
        nodes = numa_nodes()
        if node in nodes:
            return node
        if not nodes and node == 0:
            return None
        raise DeviceUnavailable(
            f"memory node {node}",
            cls.__name__,
            f"let {common.shown_variable(cls.device_control_env_var)} list nodes of this machine: "
            + (", ".join(map(str, nodes)) or "0"),
        )

    @classmethod
    def _memory(cls, device_id: int, member: str) -> MemoryState:
        node = cls._node(device_id)
        state = host_memory() if node is None else node_memory(node)
        if state is None:
            raise DeviceUnavailable(
                member,
                cls.__name__,
                "let this process read /proc/meminfo and /sys/devices/system/node, which say how much "
                "memory there is",
            )
        return state
