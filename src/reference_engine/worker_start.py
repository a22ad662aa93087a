"""The start of a worker, in whichever process it lives: kernels, class, device, model, block size."""

from __future__ import annotations

import importlib
import logging
from functools import partial
from typing import TYPE_CHECKING

from platform_abc.block_size import attention_backends, check_aligned
from platform_abc.components.kernels import IR_OPS
from platform_abc.components.worker import WorkerBase
from platform_abc.device_ids import assign_physical_devices
from platform_abc.errors import ConfigError
from platform_abc.hooks import trace
from platform_abc.hooks.calls import named, observed
from platform_abc.qualname import resolve_obj_by_qualname

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from platform_abc.platform import Platform

logger = logging.getLogger(__name__)


def load_plugins() -> None:
    """Resolve the platform of this process, then load the general plugins and let it speak its warnings.

    Raises:
        ResolutionError: no platform can be chosen.
    """
    import platforms

    platforms.load_general_plugins()
    from platforms import current_platform

    trace.step("general plugins", once=True)
    with named("log_warnings", current_platform):
        current_platform.log_warnings()


def start_worker(
    config: EngineConfig,
    *,
    rank: int = 0,
    local_rank: int = 0,
    distributed_init_method: str = "",
) -> WorkerBase:
    """Start one worker up to its loaded model and the chosen block size.

    Args:
        config: the engine's configuration; the block-size hook changes it.
        rank: this worker among all.
        local_rank: this worker among those of the same machine.
        distributed_init_method: where the ranks meet; empty for one rank.

    Raises:
        ConfigError: `parallel_config.worker_cls` names no worker, or a hook wrote nonsense.
    """
    from platforms import current_platform

    # Which device a rank is, before anything asks for a device.
    assign_physical_devices(config.parallel_config.assigned_physical_gpu_ids)
    _log_place(current_platform, rank, local_rank)
    # Its import is what imports the platform's compiled kernels.
    importlib.import_module("reference_model.custom_ops")
    with named("register_triton_kernel_overrides", current_platform):
        current_platform.register_triton_kernel_overrides()
    install_ir_ops(config)
    worker_cls = resolve_worker_cls(config)
    trace.step("the worker class is imported")
    worker = worker_cls(
        vllm_config=config,
        local_rank=local_rank,
        rank=rank,
        distributed_init_method=distributed_init_method,
        is_driver_worker=rank == 0,
    )
    from reference_model.llama import build_model
    from reference_model.parallel import group_of

    worker.init_device()
    worker.load_model(partial(build_model, group=group_of(worker)))
    with observed("update_block_size_for_backend", current_platform, config):
        current_platform.update_block_size_for_backend(config)
        # A hook of the platform's own may leave a size that a backend refuses; better now than in a kernel.
        check_aligned(attention_backends(config), config.cache_config.block_size, wanted_by="the platform")
    return worker


def _log_place(platform: Platform, rank: int, local_rank: int) -> None:
    """Say on which device of the machine a worker runs: what tools call it, whatever is visible here."""
    try:
        physical = platform.device_id_to_physical_device_id(local_rank)
    except (NotImplementedError, ValueError) as error:
        logger.debug("worker %d: %s does not tell its device: %s", rank, type(platform).__name__, error)
        return
    logger.debug("worker %d runs on the %s device %s of this machine", rank, platform.device_name, physical)


def install_ir_ops(config: EngineConfig) -> None:
    """Import the platform's implementations of IR ops and put them in the configuration's order.

    Args:
        config: the engine's configuration.

    Raises:
        ValueError: the order names an implementation that nobody has registered.
    """
    from platforms import current_platform

    importlib.import_module("reference_model.ir_ops")
    with named("import_ir_kernels", current_platform):
        current_platform.import_ir_kernels()
    IR_OPS.set_priorities(config.kernel_config.ir_op_priority.by_op())


def resolve_worker_cls(config: EngineConfig) -> type[WorkerBase]:
    """Return the class that `parallel_config.worker_cls` names.

    Args:
        config: the engine's configuration.

    Raises:
        ConfigError: it is still `auto`, or the class is no worker.
        QualnameError: the name cannot be imported.
    """
    name = config.parallel_config.worker_cls
    if name == "auto":
        raise ConfigError(
            "parallel_config.worker_cls = 'auto': expected a dotted name, set by check_and_update_config"
        )
    chosen = resolve_obj_by_qualname(name)
    if not (isinstance(chosen, type) and issubclass(chosen, WorkerBase)):
        raise ConfigError(
            f"parallel_config.worker_cls = {name!r}: expected a class that derives from "
            "platform_abc.components.worker.WorkerBase"
        )
    return chosen
